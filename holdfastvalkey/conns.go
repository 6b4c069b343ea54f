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

// conns are the connections of a driver. valkey-go offers no way to close one of them.
type conns struct {
	mu  sync.Mutex
	all map[*conn]struct{}
}

// conn is a connection that knows since when its server owes an answer.
type conn struct {
	net.Conn
	of *conns

	mu    sync.Mutex
	asked time.Time // of the first write since anything was read; zero if there is none
}

// silence is for how long a server may owe an answer before a call that times out ends the connection. It may be
// another's call that takes long.
const silence = time.Second

// dialError is why there is no connection: nothing was sent on it.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

type dialFunc = func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error)

// dialer dials as valkey-go does with these options, until life ends. Connections are closed on which the server sends
// what valkey-go could not survive.
func (s *conns) dialer(life context.Context, option valkey.ClientOption) dialFunc {
	return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		dialed, err := dial(ctx, option, addr, d, config)
		if err != nil {
			return nil, &dialError{err}
		}
		if tcp, ok := dialed.(*net.TCPConn); ok && option.DisableTCPNoDelay { // valkey-go does not see that it is one
			_ = tcp.SetNoDelay(false)
		}
		c := &conn{Conn: dialed, of: s}
		s.mu.Lock()
		if s.all == nil {
			s.all = map[*conn]struct{}{}
		}
		s.all[c] = struct{}{}
		s.mu.Unlock()
		if err := life.Err(); err != nil { // closeAll may not have seen it
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

// closeSilent closes connections whose servers have owed an answer for too long.
func (s *conns) closeSilent() {
	s.close(func(c *conn) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.asked.IsZero() && time.Since(c.asked) >= silence
	})
}

func (s *conns) closeAll() { s.close(func(*conn) bool { return true }) }

func (s *conns) close(which func(*conn) bool) {
	s.mu.Lock()
	var chosen []*conn
	for c := range s.all {
		if which(c) {
			chosen = append(chosen, c)
		}
	}
	s.mu.Unlock()
	for _, c := range chosen {
		_ = c.Close()
	}
}

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.asked.IsZero() {
		c.asked = time.Now()
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.mu.Lock()
		c.asked = time.Time{}
		c.mu.Unlock()
	}
	return n, err
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.all, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
