package pipelined

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

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
	mu   sync.Mutex
	all  map[*conn]struct{}
	addr string // of the latest
}

// conn is a connection that knows how long its server has been silent.
type conn struct {
	net.Conn
	owner *conns

	mu           sync.Mutex
	waitingSince time.Time // the first write since the last read; zero if nothing was written since
}

// maxSilence is how long a server may leave requests unanswered before a call that times out closes the connection. A
// shorter silence may be due to another, slow call.
const maxSilence = time.Second

// dialError is the error of a dial that failed, so that no call was sent.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

func (e *dialError) Is(target error) bool { return target == driver.ErrNotSent }

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

// dial opens a connection that is one of conns, until the driver closes.
func (d *Driver) dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	raw, err := d.lib.Dial(ctx, addr, dialer, config)
	if err != nil {
		return nil, &dialError{err}
	}
	c := &conn{Conn: raw, owner: &d.conns}
	d.conns.mu.Lock()
	if d.conns.all == nil {
		d.conns.all = map[*conn]struct{}{}
	}
	d.conns.all[c] = struct{}{}
	d.conns.addr = addr
	d.conns.mu.Unlock()
	if err := d.ctx.Err(); err != nil { // Close may have missed c
		_ = c.Close()
		return nil, &dialError{err}
	}
	return bounds.Wrap(c), nil
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
	var matching []*conn
	for c := range s.all {
		if all || c.isSilent() {
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
	c.owner.mu.Lock()
	delete(c.owner.all, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
