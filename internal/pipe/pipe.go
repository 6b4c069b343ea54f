// Package pipe carries the calls of many goroutines to one server on one connection. No call waits for another's round trip: calls that are
// ready leave at once, together, and replies come back in order. Calls that leave together share commands where the protocol allows it:
// acquires share a transaction, and releases share a script.
//
// The client library makes each connection and greets the server. From then on, only package pipe writes to the connection and reads from
// it.
package pipe

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounds"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// Pipe carries calls to one server. Set its exported fields before its first use.
type Pipe struct {
	// Open makes a connection.
	Open func(ctx context.Context) (driver.Connection, error)
	// OpenTimeout bounds Open.
	OpenTimeout time.Duration
	// Timeout bounds the wait for an answer. When it passes, all calls on the connection fail as unanswered.
	Timeout time.Duration
	// Go calls f in a new goroutine.
	Go func(f func())
	// InCluster says that the server belongs to a Cluster.
	InCluster bool

	mu      sync.Mutex
	line    atomic.Pointer[line]
	opening *opening        // the latest one under way, or nil
	closing context.Context // see lifetime
	stop    context.CancelFunc
}

// opening is an attempt to open a connection, for which all callers wait.
type opening struct {
	began time.Time
	ended bool
	over  chan struct{} // closed when the attempt ends
	err   error         // valid once over is closed
}

const (
	// maxIdle is how long a connection may be idle, unless the user's options say less. After that, a firewall may have dropped it.
	maxIdle = 30 * time.Second
	// trusted is how long a connection may be idle before it is checked, since the server may have closed it.
	trusted = 100 * time.Millisecond
	// patience is how long a connection may be silent while an answer is due, before new calls take another one.
	patience = time.Second
)

// Send sends a call and returns when the call is answered, has failed, or ctx has ended. The error is ctx's if the server may have carried
// out the call or may still do so; the call must not be used again then. It matches driver.ErrNotSent if the call was certainly not sent.
// It is a driver.ReplyError if the server refused the call. After any other error the outcome is unknown.
func (p *Pipe) Send(ctx context.Context, c *Call) error {
	now := time.Now()
	c.prepare(now, now.Add(p.Timeout))
	for {
		if l := p.line.Load(); l != nil {
			if err := l.send(ctx, c, now); err != errEnded {
				return err
			}
			p.line.CompareAndSwap(l, nil)
		}
		wait := p.opened()
		if wait == nil {
			continue
		}
		timer := time.NewTimer(time.Until(c.deadline))
		select {
		case <-wait.over:
			timer.Stop()
			if wait.err != nil {
				return NotSent{wait.err}
			}
		case <-ctx.Done():
			timer.Stop()
			return NotSent{ctx.Err()}
		case <-timer.C:
			return NotSent{errDeadline}
		}
		now = time.Now()
	}
}

// WhenOpened calls f in the background once the connection being opened is open or has failed. If none is being opened, it does nothing.
func (p *Pipe) WhenOpened(f func(error)) {
	p.mu.Lock()
	o := p.opening
	p.mu.Unlock()
	if o != nil {
		p.Go(func() {
			<-o.over
			f(o.err)
		})
	}
}

// Start sends a call as Send does, but returns at once. When the call has been answered or has failed, then is called with the error,
// unless Call.Leave gave the call up. The call must not be used again. If there is no connection, Start does nothing and returns false.
func (p *Pipe) Start(c *Call, then func(error)) bool {
	l := p.line.Load()
	if l == nil {
		return false
	}
	now := time.Now()
	c.then, c.line = then, l
	c.prepare(now, now.Add(p.Timeout))
	return l.start(c, now)
}

// StartBehind is Start, but sends the call on the connection of an earlier one, so that the server carries out the earlier one first, even
// if that has not been answered. If that connection has ended, or there was none, StartBehind does nothing and returns false.
func StartBehind(earlier, c *Call, then func(error)) bool {
	l := earlier.line
	if l == nil {
		return false
	}
	now := time.Now()
	c.then, c.line = then, l
	c.prepare(now, now.Add(l.pipe.Timeout))
	return l.follow(c)
}

// WordsOf returns the words of a call's command; for a script, those of EVALSHA or, if bySource is set, EVAL, since the server may not
// know the script.
func WordsOf(c driver.Call, bySource bool) []string {
	head := []string{c.Script.Command}
	switch {
	case c.Script.Command != "":
	case bySource:
		head = []string{"EVAL", c.Script.Source, strconv.Itoa(len(c.Keys))}
	default:
		head = []string{"EVALSHA", c.Script.SHA1, strconv.Itoa(len(c.Keys))}
	}
	return slices.Concat(head, c.Keys, c.Args)
}

// opened returns nil if there is a line. Otherwise it returns the attempt to open one. It begins another attempt if none is under way, or
// if the latest has taken so long that new calls would not use such a connection.
func (p *Pipe) opened() *opening {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line.Load() != nil {
		return nil
	}
	if o := p.opening; o != nil && time.Since(o.began) < max(p.Timeout, patience) {
		return o
	}
	o := &opening{began: time.Now(), over: make(chan struct{})}
	p.opening = o
	if p.lifetime().Err() != nil {
		p.end(o, errClosed)
	} else {
		p.Go(func() { p.open(o) })
	}
	return o
}

// lifetime returns a context that Close ends. The caller holds mu.
func (p *Pipe) lifetime() context.Context {
	if p.closing == nil {
		p.closing, p.stop = context.WithCancel(context.Background())
	}
	return p.closing
}

// end ends an attempt to open a connection. If it has succeeded, end also ends a later attempt that is under way. The caller holds mu.
func (p *Pipe) end(o *opening, err error) {
	if o.ended {
		return
	}
	o.ended, o.err = true, err
	close(o.over)
	switch {
	case p.opening == o:
		p.opening = nil
	case err == nil && p.opening != nil:
		p.end(p.opening, nil)
	}
}

var (
	errClosed   = errors.New("closed")
	errReplaced = errors.New("the connection was replaced")
	errDeadline = errors.New("no answer in time")
	errEnded    = errors.New("the connection takes no more calls")
	errQueues   = errors.New("the server does not end a transaction")
	// errNoDeadlines says that connections have no deadlines, such as those through an SSH client.
	errNoDeadlines = fmt.Errorf("%w: the connection has no deadlines", errors.ErrUnsupported)
)

// open opens a line.
func (p *Pipe) open(o *opening) {
	ctx, cancel := context.WithTimeout(p.closing, p.OpenTimeout)
	defer cancel()
	conn, err := p.Open(ctx)
	l := &line{pipe: p, free: conn.Free, made: time.Now(), maxIdle: maxIdle, maxAge: conn.MaxAge}
	if conn.MaxIdle > 0 {
		l.maxIdle = min(maxIdle, conn.MaxIdle)
	}
	l.used = l.made
	if conn.Conn != nil {
		l.conn = bounds.Unwrap(conn.Conn)
		switch below(l.conn).(type) {
		case *net.TCPConn, *net.UnixConn:
			l.buffers = true
		}
	}
	if err == nil {
		err = l.conn.SetDeadline(time.Time{})
		if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
			err = errNoDeadlines
		}
	}
	if err == nil {
		err = l.askTime(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.closing.Err() != nil {
		err = errClosed
	}
	if err != nil || !p.line.CompareAndSwap(nil, l) {
		l.close(errReplaced)
	}
	p.end(o, err)
}

const timeScript = "return redis.call('TIME')"

var timeSHA1 = fmt.Sprintf("%x", sha1.Sum([]byte(timeScript)))

// askTime asks for the server's time, from which the expiries of locks are reckoned. It asks by script, first by digest, then by source, as
// locks are renewed and released: a user who may not run scripts must not acquire a lock by commands.
func (l *line) askTime(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(longAgo) })
	r, err := l.ask("EVALSHA", timeSHA1, "0")
	if err == nil && bytes.HasPrefix(r.rest, []byte("-NOSCRIPT ")) {
		r, err = l.ask("EVAL", timeScript, "0")
	}
	if err != nil {
		return err
	}
	if r.rest[0] == '-' {
		_, text := r.next()
		err := driver.ReplyError(text)
		if !concernsServer(err) { // the driver may manage without a pipe
			return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		}
		return err
	}
	now := r.time()
	if now == 0 || l.in.from < len(l.in.b) {
		return errForm
	}
	l.clock = serverClock{clock.Now(), now}
	if !stop() {
		return ctx.Err()
	}
	return nil
}

// ask sends a command on a line that is not in use yet, and returns the reply.
func (l *line) ask(words ...string) (r replies, err error) {
	_, err = l.conn.Write(appendWords(nil, len(words), words...))
	for missing := 1; err == nil; {
		if _, err = l.in.fill(l.conn); err == nil {
			var whole bool
			if r, whole, err = l.in.take(&missing); whole {
				return r, nil
			}
		}
	}
	return r, err
}

// Close fails the calls under way. Later calls fail without being sent.
func (p *Pipe) Close() {
	p.mu.Lock()
	l := p.line.Swap(nil)
	p.lifetime()
	p.stop()
	p.mu.Unlock()
	if l != nil {
		l.close(errClosed)
	}
}

func (l *line) close(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(err)
}

// NotSent is the error of a request that was certainly not sent. It matches driver.ErrNotSent.
type NotSent struct{ Err error }

func (e NotSent) Error() string        { return e.Err.Error() }
func (e NotSent) Is(target error) bool { return target == driver.ErrNotSent }
func (e NotSent) Unwrap() error        { return e.Err }

// hangUp closes a connection at once. The Close of a tls.Conn first sends an alert, which takes up to 5 s if the server does not read, but
// fails immediately once the connection below is closed.
func hangUp(conn net.Conn) {
	_ = below(conn).Close()
	_ = conn.Close()
}

// below returns the innermost connection: below TLS and a driver's wrappers, or conn itself.
func below(conn net.Conn) net.Conn {
	for {
		conn = bounds.Unwrap(conn)
		upper, is := conn.(interface{ NetConn() net.Conn })
		if !is {
			return conn
		}
		conn = upper.NetConn()
	}
}
