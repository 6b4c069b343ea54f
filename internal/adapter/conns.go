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
	all  map[weak.Pointer[conn]]struct{}
	addr string // of the latest
	// era ends when all connections are closed. Those of an earlier one, which are still being made, are not added any more.
	era    context.Context // nil at first
	endEra context.CancelFunc
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

// dial returns what opens connections that are of conns, until that era ends.
func (d *Driver) dial(era context.Context) Dial {
	return bounded(func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(era, cancel)()
		raw, err := d.lib.Dial(ctx, addr, dialer, config)
		if era.Err() != nil && err != nil {
			err = errReplaced // and not that of ctx, which looks as if the caller had given up
		}
		if err != nil {
			return nil, &dialError{err}
		}
		c := &conn{Conn: raw, owner: &d.conns}
		if !d.conns.add(c, addr, era) {
			_ = raw.Close()
			return nil, &dialError{errReplaced}
		}
		if sys, is := raw.(syscall.Conn); is {
			return syscallConn{c, sys}, nil
		}
		return c, nil
	})
}

// era returns the era of connections that are opened now. It also ends with the driver.
func (d *Driver) era() context.Context {
	s := &d.conns
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.era == nil || s.era.Err() != nil {
		s.era, s.endEra = context.WithCancel(d.ctx)
	}
	return s.era
}

// add adds a connection, or returns false if its era has ended.
func (s *conns) add(c *conn, addr string, era context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if era.Err() != nil {
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

// closeAll closes all connections, and ends their era.
func (s *conns) closeAll() {
	s.mu.Lock()
	if s.endEra != nil {
		s.endEra()
	}
	s.mu.Unlock()
	s.closeIf(func(*conn) bool { return true })
}

// closeIf closes the connections for which f returns true.
func (s *conns) closeIf(f func(c *conn) bool) {
	s.mu.Lock()
	var matching []*conn
	for ref := range s.all {
		if c := ref.Value(); c != nil && f(c) {
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
