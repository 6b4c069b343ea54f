// Package prompt keeps a driver's connections for calls that bypass its client library (driver.Prompt): those of callers that
// send their own, and batches. A connection carries one call at a time. A caller that gives up closes its connection, and returns
// at once.
//
// The client library makes each connection and greets the server. From then on, only package prompt writes to it and reads
// from it. The library's own connections will not do: it does not say which of them a call uses, may dial before a call, which
// can take long, and allocates more for a call than everything else that acquires a lock.
package prompt

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounds"
)

// Keeper keeps a driver's connections. Set its exported fields before its first use.
type Keeper struct {
	// Open makes a connection with Greeted. It also returns a function that frees what the client library holds for the
	// connection, or nil. The Keeper calls the function even if Open fails. If Open is nil, nothing is sent.
	Open func(ctx context.Context) (conn net.Conn, free func(), err error)
	// Timeout bounds Open.
	Timeout time.Duration
	// Spawn calls f in a goroutine, or returns false if the driver is closing.
	Spawn func(f func()) bool
	// Ctx ends when the driver is closed.
	Ctx context.Context
	// MaxIdle and MaxAge are the user's limits on a connection's idle time and age; 0 means no limit.
	MaxIdle, MaxAge time.Duration

	mu      sync.Mutex
	idle    []*line   // the most recently used one is last
	busy    int       // lines in use by calls
	opening bool      // a line is being made
	notTill time.Time // until then no additional line is made, and callers that may give up get none
	useless bool      // connections have no deadlines, so none is used
	closed  bool
}

// most is the maximum number of connections: with a server far away, that many callers can send their own calls at once. With more
// callers, calls that share a connection cost the client and the server less.
const most = 8

// line is a connection. A call that has taken it from the Keeper owns it, with its buffers. Others may only call hangUp.
type line struct {
	conn   net.Conn
	free   func()
	hangUp func() // closes conn, at once
	exact  bool   // conn is known to keep its deadlines
	made   time.Time
	used   time.Time // when a call last began or ended

	out, in []byte // buffers
}

const (
	// pause is how long no connection is made after one has failed. When the server is slow, many callers give up, and each
	// of them would cost a connection.
	pause = time.Second
	// maxIdle is how long a connection may be idle, unless the user's options say less. After that, a firewall may have
	// dropped it.
	maxIdle = 30 * time.Second
	// grace is how long after its deadline a call ends on a connection that does not keep it.
	grace = 100 * time.Millisecond
	// trusted is how long a connection may be idle before it is checked: the server may have closed it.
	trusted = 100 * time.Millisecond
	// suspicious is how long a call may be unanswered when its caller gives up, before the other connections are doubted, too.
	suspicious = 100 * time.Millisecond
)

// Run sends a call, as driver.Prompt's RunPrompt does. It returns driver.ErrNotSent, a driver.ReplyError, or an error of the
// connection.
func (k *Keeper) Run(ctx context.Context, deadline time.Time, c *driver.Call) (string, error) {
	if ctx.Err() != nil {
		return "", driver.ErrNotSent
	}
	l := k.take(ctx.Done() != nil)
	if l == nil {
		return "", driver.ErrNotSent
	}
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, l.hangUp)
	}
	inTime := func() bool { return true }
	if !l.exact {
		inTime = time.AfterFunc(time.Until(deadline)+grace, l.hangUp).Stop
	}
	reply, err := l.run(deadline, c)
	// mutants: late-reply
	intact := inTime() && (err == nil || concernsOneCall(err))
	k.giveBack(l, stop() && intact, ctx.Err() != nil)
	return reply, err
}

// take returns a connection for one call. If none can be used, take returns nil, and may start to make one. A caller
// that may give up gets none for a while after a call failed or was given up, or a connection could not be made.
func (k *Keeper) take(mayGiveUp bool) *line {
	if k.Open == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.useless {
		return nil
	}
	now := time.Now()
	rests := now.Before(k.notTill)
	if mayGiveUp && rests {
		return nil
	}
	var bad []*line
	for n := len(k.idle); n > 0; n = len(k.idle) {
		l := k.idle[n-1]
		k.idle[n-1] = nil
		k.idle = k.idle[:n-1]
		if k.isGood(l, now) {
			l.used = now
			k.busy++
			return l
		}
		bad = append(bad, l)
	}
	open := !k.opening && k.busy < most && (bad != nil || !rests)
	if !open && bad == nil {
		return nil
	}
	replace := func() {
		for _, l := range bad {
			l.close()
		}
		if open {
			made, err := k.open()
			k.add(made, err)
		}
	}
	if k.Spawn(replace) {
		k.opening = k.opening || open
	} else { // the driver is closing
		open = false
		replace()
	}
	return nil
}

// isGood reports whether an idle connection may be used.
func (k *Keeper) isGood(l *line, now time.Time) bool {
	return !k.isOver(l, now) && (now.Sub(l.used) <= trusted || !isClosed(l.conn))
}

// isOver reports whether a connection is too old, or has been idle for too long.
func (k *Keeper) isOver(l *line, now time.Time) bool {
	age, idle := now.Sub(l.made), now.Sub(l.used)
	return idle > maxIdle || k.MaxIdle > 0 && idle > k.MaxIdle || k.MaxAge > 0 && age > k.MaxAge
}

// open makes a connection. The caller must close the line even if there is an error.
func (k *Keeper) open() (*line, error) {
	ctx, cancel := context.WithTimeout(k.Ctx, k.Timeout)
	defer cancel()
	conn, free, err := k.Open(ctx)
	l := &line{free: free, made: time.Now()}
	if conn != nil {
		l.conn = bounds.Unwrap(conn)
		l.hangUp = func() { hangUp(conn) }
		switch below(conn).(type) {
		case *net.TCPConn, *net.UnixConn:
			l.exact = true
		}
		if err == nil && l.conn.SetDeadline(time.Time{}) != nil {
			err = errNoDeadlines
		}
	}
	return l, err
}

// errNoDeadlines says that connections have no deadlines, as those through an SSH client do not.
var errNoDeadlines = errors.New("the connection has no deadlines")

// hangUp closes a connection at once. The Close of a tls.Conn first sends an alert, which takes up to 5 s if the server does not
// read. Once the connection below is closed, that fails immediately.
func hangUp(conn net.Conn) {
	_ = below(conn).Close()
	_ = conn.Close()
}

// below returns the connection that carries what is sent on conn: the one below TLS and a driver's wrappers, or conn itself.
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

func (l *line) close() {
	if l.hangUp != nil {
		l.hangUp()
	}
	if l.free != nil {
		l.free()
	}
}

// giveBack ends a call's use of a connection. If the call failed, unless its caller gave up soon, the idle connections are closed
// as well: the server may be gone, and each of them would cost another call its deadline.
func (k *Keeper) giveBack(l *line, intact, gaveUp bool) {
	k.mu.Lock()
	k.busy--
	now := time.Now()
	took := now.Sub(l.used)
	l.used = now
	if intact && !k.closed {
		k.idle = append(k.idle, l)
		spare := k.idle[0] // not used again as long as there are better ones
		if !k.isOver(spare, now) {
			spare = nil
		} else {
			k.idle = slices.Delete(k.idle, 0, 1)
		}
		k.mu.Unlock()
		if spare != nil && !k.Spawn(spare.close) {
			spare.close()
		}
		return
	}
	k.notTill = now.Add(pause)
	var suspects []*line
	if !intact && (!gaveUp || took > suspicious) {
		suspects, k.idle = k.idle, nil
	}
	k.mu.Unlock()
	l.close()
	for _, other := range suspects {
		other.close()
	}
}

// add adds a connection that open has made, or closes it if open failed.
func (k *Keeper) add(l *line, err error) {
	k.mu.Lock()
	k.opening = false
	k.useless = err == errNoDeadlines
	l.used = time.Now()
	if err == nil && !k.closed {
		k.idle = append(k.idle, l)
		k.mu.Unlock()
		return
	}
	k.notTill = l.used.Add(pause)
	k.mu.Unlock()
	l.close()
}

// Close closes the idle connections. The others are closed when their calls end.
func (k *Keeper) Close() {
	k.mu.Lock()
	idle := k.idle
	k.closed, k.idle = true, nil
	k.mu.Unlock()
	for _, l := range idle {
		l.close()
	}
}

// Dialer makes a connection, as net.Dialer's DialContext does.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Greeted returns a connection on which a client library has greeted the server. greet must make the library dial exactly once,
// with the Dialer that it is given, and must return only after the server has replied to the greeting. When ctx ends, Greeted
// closes the connection, because libraries would go on waiting for the server.
func Greeted(ctx context.Context, dial Dialer, greet func(dial Dialer) error) (net.Conn, error) {
	dialed := make(chan net.Conn, 1)
	end := func() {
		select {
		case conn := <-dialed:
			hangUp(conn)
		default: // not dialed yet; the dialer will see that ctx has ended
		}
	}
	stop := context.AfterFunc(ctx, end)
	err := greet(func(dialing context.Context, network, addr string) (net.Conn, error) {
		dialing, cancel := context.WithCancel(dialing)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		conn, err := dial(dialing, network, addr)
		if err != nil {
			return nil, err
		}
		select {
		case dialed <- conn:
			err = ctx.Err()
		default:
			err = errors.New("dialed again")
		}
		if err != nil {
			hangUp(conn)
			return nil, err
		}
		return conn, nil
	})
	switch {
	case !stop():
		return nil, ctx.Err()
	case err != nil:
		end() // libraries may leave a connection open after a greeting that failed
		return nil, err
	}
	return <-dialed, nil
}
