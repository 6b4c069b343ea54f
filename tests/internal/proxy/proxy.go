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

	"github.com/holdfast-go/holdfast/internal/network"
)

// Proxy forwards connections to a server. Without a fault it only copies.
type Proxy struct {
	network.Network
	target   string
	listener net.Listener
	ctx      context.Context // until the end of the test
	end      context.CancelFunc
	running  sync.WaitGroup

	deafen atomic.Bool
	refuse atomic.Bool
	filter atomic.Pointer[func([]byte) []byte]

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

// Deafen discards, while on, what the server sends on connections with subscriptions. The server still counts
// them as receivers.
func (p *Proxy) Deafen(on bool) { p.deafen.Store(on) }

// Refuse closes, while on, every new connection at once.
func (p *Proxy) Refuse(on bool) { p.refuse.Store(on) }

// Filter changes all later requests by f. If f returns nil, the client's connection is closed.
func (p *Proxy) Filter(f func(request []byte) []byte) { p.filter.Store(&f) }

// CutSubscriptions cuts the connections that have, or had, a subscription.
func (p *Proxy) CutSubscriptions() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.subscribed.Load() {
			l.Cut()
		}
	}
}

func (p *Proxy) close() {
	p.end()
	p.listener.Close()
	p.Close()
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
	l := p.newLink(client, server)
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}
