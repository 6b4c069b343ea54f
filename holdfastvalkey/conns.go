package holdfastvalkey

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast/internal/bounds"
)

// conns is the set of a driver's connections. valkey-go offers no way to close one of them.
type conns struct {
	mu  sync.Mutex
	all map[*conn]struct{}
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

type dialFunc = func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error)

// dialer returns a function that dials as valkey-go does with these options, until life ends. Connections close when
// the server sends what valkey-go could not survive.
func (s *conns) dialer(life context.Context, option valkey.ClientOption) dialFunc {
	return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		raw, err := dial(ctx, option, addr, d, config)
		if err != nil {
			return nil, &dialError{err}
		}
		if tcp, ok := raw.(*net.TCPConn); ok && option.DisableTCPNoDelay { // valkey-go does not recognize a wrapped one
			_ = tcp.SetNoDelay(false)
		}
		c := &conn{Conn: raw, owner: s}
		s.mu.Lock()
		if s.all == nil {
			s.all = map[*conn]struct{}{}
		}
		s.all[c] = struct{}{}
		s.mu.Unlock()
		if err := life.Err(); err != nil { // closeAll may have missed c
			_ = c.Close()
			return nil, &dialError{err}
		}
		return bounds.Wrap(c), nil
	}
}

func dial(ctx context.Context, option valkey.ClientOption, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	switch {
	case option.DialCtxFn != nil:
		return option.DialCtxFn(ctx, addr, d, config)
	case option.DialFn != nil:
		return option.DialFn(addr, d, config)
	case config != nil:
		return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", addr)
	}
	return d.DialContext(ctx, "tcp", addr)
}

// closeSilent closes connections whose servers have been silent for too long.
func (s *conns) closeSilent() {
	s.close(func(c *conn) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.waitingSince.IsZero() && time.Since(c.waitingSince) >= maxSilence
	})
}

func (s *conns) closeAll() { s.close(func(*conn) bool { return true }) }

func (s *conns) close(match func(*conn) bool) {
	s.mu.Lock()
	var matching []*conn
	for c := range s.all {
		if match(c) {
			matching = append(matching, c)
		}
	}
	s.mu.Unlock()
	for _, c := range matching {
		_ = c.Close()
	}
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
