// Package proxy is a TCP proxy between a client and a Redis server that does to requests and replies what
// networks do: it delays them, loses them, delivers them late or twice, and breaks connections.
package proxy

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/network"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/resp"
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
	listener := expect.Of(net.Listen("tcp", "127.0.0.1:0")).OK(tb)
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

// link is a client's connection and the corresponding one to the server.
type link struct {
	*network.Link
	proxy      *Proxy
	deaf       bool                 // a request was held: nothing that follows it passes either
	loss       atomic.Pointer[Trap] // gets the replies instead of the client
	subscribed atomic.Bool
}

func (p *Proxy) newLink(client, server net.Conn) *link {
	return &link{Link: p.NewLink(client, server), proxy: p}
}

func (l *link) run() {
	l.Run(network.Tap{Read: l.readRequest, Request: l.passesRequest, Reply: l.passesReply})
}

// readRequest reads a request, and filters it. An error ends the connection.
func (l *link) readRequest(in *bufio.Reader) ([]byte, error) {
	request, err := readRequest(in)
	if f := l.proxy.filter.Load(); f != nil && err == nil {
		if request = (*f)(request); request == nil {
			return nil, io.EOF
		}
	}
	return request, err
}

// readRequest reads a request. A transaction is one.
func readRequest(in *bufio.Reader) ([]byte, error) {
	request, err := resp.ReadRequest(in)
	if err != nil || !bytes.Contains(request, []byte("\r\nMULTI\r\n")) {
		return request, err
	}
	for {
		command, err := resp.ReadRequest(in)
		if request = append(request, command...); err != nil || bytes.Contains(command, []byte("\r\nEXEC\r\n")) {
			return request, err
		}
	}
}

func (l *link) passesRequest(request []byte) bool {
	if l.deaf {
		return false
	}
	if subscribes(request) {
		l.subscribed.Store(true)
	}
	if t := l.proxy.spring(request); t != nil && t.takeRequest(l, request) {
		l.deaf = true
	}
	return !l.deaf
}

func (l *link) passesReply(reply []byte) bool {
	if t := l.loss.Load(); t != nil {
		t.takeReply(l, reply)
		return false
	}
	return !l.proxy.deafen.Load() || !l.subscribed.Load()
}

// subscribes reports whether a request is a SUBSCRIBE of any kind.
func subscribes(request []byte) bool {
	words := bytes.SplitN(request, []byte("\r\n"), 4)
	return len(words) == 4 && bytes.HasSuffix(bytes.ToLower(words[2]), []byte("subscribe"))
}
