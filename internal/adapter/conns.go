package adapter

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"

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

// conns is a set of connections that can all be closed at once. Its zero value is empty.
type conns struct {
	mu  sync.Mutex
	all map[*conn]struct{}
	// era ends when all connections are closed. Those of an earlier one, which are still being made, are not added any more.
	era    context.Context // nil at first
	endEra context.CancelFunc
}

// conn is a connection of a set.
type conn struct {
	net.Conn
	owner *conns
}

// syscallConn is a conn of which go-redis can find out that it is broken.
type syscallConn struct {
	*conn
	syscall.Conn
}

// dialError is the error of a dial that failed, so that no call was sent.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

func (e *dialError) Is(target error) bool { return target == driver.ErrNotSent }

var errReplaced = errors.New("all connections were closed meanwhile")

// current returns the era of connections that are opened now. It also ends with ctx.
func (s *conns) current(ctx context.Context) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.era == nil || s.era.Err() != nil {
		s.era, s.endEra = context.WithCancel(ctx)
	}
	return s.era
}

// dialing returns what opens connections of the set with dial, until that era ends. They close when the server sends a reply
// that would crash the libraries.
func (s *conns) dialing(dial Dial, era context.Context) Dial {
	return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(era, cancel)()
		raw, err := dial(ctx, addr, d, config)
		if era.Err() != nil && err != nil {
			err = errReplaced // and not that of ctx, which looks as if the caller had given up
		}
		if err != nil {
			return nil, &dialError{err}
		}
		c := &conn{Conn: raw, owner: s}
		if !s.add(c, era) {
			_ = raw.Close()
			return nil, &dialError{errReplaced}
		}
		if sys, is := raw.(syscall.Conn); is {
			return bounds.Wrap(syscallConn{c, sys}), nil
		}
		return bounds.Wrap(c), nil
	}
}

// add adds a connection, or returns false if its era has ended.
func (s *conns) add(c *conn, era context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if era.Err() != nil {
		return false
	}
	if s.all == nil {
		s.all = map[*conn]struct{}{}
	}
	s.all[c] = struct{}{}
	return true
}

// closeAll closes all connections, and ends their era.
func (s *conns) closeAll() {
	s.mu.Lock()
	if s.endEra != nil {
		s.endEra()
	}
	all := s.all
	s.all = nil
	s.mu.Unlock()
	for c := range all {
		_ = c.Conn.Close()
	}
}

// NetConn returns the connection that c wraps, as the NetConn of a tls.Conn does.
func (c *conn) NetConn() net.Conn { return c.Conn }

func (c *conn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.all, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
