// Package proxy is a TCP proxy between a client and a Redis server that does to requests and replies what
// networks do: it delays them, loses them, delivers them late or twice, and breaks connections.
package proxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy forwards connections to a server. Without a fault it only copies.
type Proxy struct {
	target   string
	listener net.Listener
	ctx      context.Context // until the end of the test
	end      context.CancelFunc
	running  sync.WaitGroup

	requestDelay atomic.Int64 // nanoseconds
	replyDelay   atomic.Int64
	swallow      atomic.Bool
	deafen       atomic.Bool
	refuse       atomic.Bool

	mu    sync.Mutex
	links map[*link]struct{}
	traps []*Trap // not yet sprung, oldest first
}

// New starts a proxy on a free loopback port that forwards to target, a
// host:port. It ends with the test.
func New(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{target: target, listener: listener, links: make(map[*link]struct{})}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Addr returns the address for clients, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// DelayRequests makes requests that arrive from now on reach the server after d; zero ends that. As in a
// network, a delayed request still arrives if its client has gone; only Cut loses it.
func (p *Proxy) DelayRequests(d time.Duration) { p.requestDelay.Store(int64(d)) }

// DelayReplies makes replies that arrive from now on reach the client after d; zero ends that.
func (p *Proxy) DelayReplies(d time.Duration) { p.replyDelay.Store(int64(d)) }

// SwallowReplies discards, while on, everything that the server sends.
func (p *Proxy) SwallowReplies(on bool) { p.swallow.Store(on) }

// Deafen discards, while on, what the server sends on connections with subscriptions. The server still counts
// them as receivers.
func (p *Proxy) Deafen(on bool) { p.deafen.Store(on) }

// Refuse closes, while on, every new connection at once.
func (p *Proxy) Refuse(on bool) { p.refuse.Store(on) }

// Cut cuts all connections, and loses everything on its way in them.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// CutSubscriptions cuts the connections that have, or had, a subscription.
func (p *Proxy) CutSubscriptions() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.subscribed.Load() {
			l.cut()
		}
	}
}

func (p *Proxy) close() {
	p.end()
	p.listener.Close()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		if p.refuse.Load() {
			client.Close()
			continue
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) dial() (net.Conn, error) {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	return dialer.DialContext(p.ctx, "tcp", p.target)
}

func (p *Proxy) serve(client net.Conn) {
	server, err := p.dial()
	if err != nil {
		client.Close()
		return
	}
	l := newLink(p, client, server)
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	if p.ctx.Err() != nil {
		l.cut() // close has cut the links, but not this one
	}
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}
