package adapter

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"sync"
	"syscall"
	"time"
	"weak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounds"
)

// Dial opens a connection to addr.
type Dial = func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error)

// Dialer returns what opens connections as the libraries do with these options.
func Dialer(withContext Dial, without func(addr string, d *net.Dialer, config *tls.Config) (net.Conn, error), delay bool) Dial {
	return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (conn net.Conn, err error) {
		switch {
		case withContext != nil:
			conn, err = withContext(ctx, addr, d, config)
		case without != nil:
			conn, err = without(addr, d, config)
		case config != nil:
			conn, err = (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", addr)
		default:
			conn, err = d.DialContext(ctx, "tcp", addr)
		}
		if tcp, ok := conn.(*net.TCPConn); ok && delay { // the libraries do not recognize a wrapped one
			_ = tcp.SetNoDelay(false)
		}
		return conn, err
	}
}

// conns is the set of a driver's connections. The libraries offer no way to close one of them.
type conns struct {
	mu sync.Mutex
	// all has weak pointers, because go-redis before 9.23 does not close a connection whose server did not answer HELLO, and leaves it
	// to the garbage collector.
	all        map[weak.Pointer[conn]]struct{}
	addr       string // of the latest
	generation int    // how often all have been closed
}

// conn is a connection that knows how long its server has been silent.
type conn struct {
	net.Conn
	owner *conns

	mu           sync.Mutex
	waitingSince time.Time // the first write since the last read; zero if nothing was written since
}

// syscallConn is a conn of which go-redis can find out that it is broken.
type syscallConn struct {
	*conn
	syscall.Conn
}

// maxSilence is how long a server may leave requests unanswered before a call that times out closes the connection. A
// shorter silence may be due to another, slow call.
const maxSilence = time.Second

// dialError is the error of a dial that failed, so that no call was sent.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

func (e *dialError) Is(target error) bool { return target == driver.ErrNotSent }

var errReplaced = errors.New("the client was given up while it connected")

// bounded returns what opens connections that close when the server sends what the libraries could not survive.
func bounded(dial Dial) Dial {
	return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, addr, d, config)
		if err != nil {
			return nil, err
		}
		return bounds.Wrap(conn), nil
	}
}

// dial returns what opens connections that are of conns, until all of that generation have been closed, or the driver closes.
func (d *Driver) dial(generation int) Dial {
	return bounded(func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(d.ctx, cancel)()
		raw, err := d.lib.Dial(ctx, addr, dialer, config)
		if err != nil {
			return nil, &dialError{err}
		}
		c := &conn{Conn: raw, owner: &d.conns}
		if d.ctx.Err() != nil || !d.conns.add(c, addr, generation) {
			_ = raw.Close()
			return nil, &dialError{errReplaced}
		}
		if sys, is := raw.(syscall.Conn); is {
			return syscallConn{c, sys}, nil
		}
		return c, nil
	})
}

// now returns the generation of connections that are opened now.
func (s *conns) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation
}

// add adds a connection, or returns false if those of its generation have been closed.
func (s *conns) add(c *conn, addr string, generation int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generation != generation {
		return false
	}
	if s.all == nil {
		s.all = map[weak.Pointer[conn]]struct{}{}
	}
	ref := weak.Make(c)
	s.all[ref], s.addr = struct{}{}, addr
	runtime.AddCleanup(c, s.remove, ref)
	return true
}

func (s *conns) remove(ref weak.Pointer[conn]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, ref)
}

// latest returns the address that was dialed last: that of the server, unless there are several.
func (s *conns) latest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// close closes all connections, or those whose servers have been silent for too long.
func (s *conns) close(all bool) {
	s.mu.Lock()
	if all {
		s.generation++
	}
	var matching []*conn
	for ref := range s.all {
		if c := ref.Value(); c != nil && (all || c.isSilent()) {
			matching = append(matching, c)
		}
	}
	s.mu.Unlock()
	for _, c := range matching {
		_ = c.Close()
	}
}

func (c *conn) isSilent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.waitingSince.IsZero() && time.Since(c.waitingSince) >= maxSilence
}

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.waitingSince.IsZero() {
		c.waitingSince = time.Now()
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.mu.Lock()
		c.waitingSince = time.Time{}
		c.mu.Unlock()
	}
	return n, err
}

// NetConn returns the connection that c wraps, as the NetConn of a tls.Conn does.
func (c *conn) NetConn() net.Conn { return c.Conn }

func (c *conn) Close() error {
	c.owner.remove(weak.Make(c))
	return c.Conn.Close()
}
