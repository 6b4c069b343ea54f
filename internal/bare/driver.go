// Package bare has a driver that needs no client library, for tests: it speaks the Redis protocol itself, over whatever
// connections it is given. It reaches one server, without credentials.
package bare

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// New returns a driver of the server that dial reaches; addr names it to people. Nothing is sent.
func New(addr string, dial func(ctx context.Context) (net.Conn, error)) *adapter.Driver {
	return adapter.New(adapter.Library{
		Name: "test", Addrs: []string{addr}, ErrClosing: net.ErrClosed,
		Dial: func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) { return dial(ctx) },
		Greet: func(ctx context.Context, addr string, dial adapter.Dial) (*adapter.Client, error) {
			// Servers begin with version 2 of the protocol.
			_, err := dial(ctx, addr, nil, nil)
			return nil, err
		},
		New: func(addr string, dial adapter.Dial) (*adapter.Client, error) {
			p := &pool{open: func(ctx context.Context) (net.Conn, error) { return dial(ctx, addr, nil, nil) }}
			return &adapter.Client{Send: p.send, Dedicate: p.dedicate, Pools: true, Close: p.close}, nil
		},
	})
}

// pool has a connection for each call under way.
type pool struct {
	open func(ctx context.Context) (net.Conn, error)

	mu     sync.Mutex
	idle   []*Conn
	closed bool
}

func (p *pool) send(ctx context.Context, commands ...resp.Command) []resp.Reply {
	send, release := p.dedicate(false)
	defer release()
	return send(ctx, commands...)
}

func (p *pool) dedicate(bool) (send resp.Sender, release func()) {
	var c *Conn
	return func(ctx context.Context, commands ...resp.Command) []resp.Reply {
			if c == nil {
				c = p.take(ctx)
			}
			return c.send(ctx, commands...)
		}, func() {
			if c != nil {
				p.give(c)
			}
		}
}

// take returns a connection, or one on which everything fails.
func (p *pool) take(ctx context.Context) *Conn {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		defer p.mu.Unlock()
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c
	}
	p.mu.Unlock()
	conn, err := p.open(ctx)
	if err != nil {
		return &Conn{err: err}
	}
	return NewConn(conn)
}

// give keeps a connection for reuse unless it is broken.
func (p *pool) give(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || c.err != nil {
		c.Close()
		return
	}
	p.idle = append(p.idle, c)
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		c.Close()
	}
}
