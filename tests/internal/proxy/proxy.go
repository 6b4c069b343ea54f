// Package proxy is a TCP proxy between a client and a Redis server that does to requests and replies what
// networks do: it delays them, loses them, delivers them late or twice, and breaks connections.
package proxy

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"slices"
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

const trapTimeout = 30 * time.Second

// Match picks a request by its bytes on the wire, which contain the arguments verbatim. One goroutine at a time
// calls it.
type Match func(request []byte) bool

// Containing matches requests that contain all of the parts, such as the name of a command or of a key, a
// token, or the digest of a script.
func Containing(parts ...string) Match {
	return func(request []byte) bool {
		return !slices.ContainsFunc(parts, func(part string) bool {
			return !bytes.Contains(request, []byte(part))
		})
	}
}

// After says what happens to the client's connection after a fault.
type After int

const (
	Hang After = iota // it stays open, and silent
	Cut               // it is closed
)

type fault int

const (
	loseReply fault = iota
	double
	hold
)

// Trap is a fault that happens once, to the next request that matches. If two traps match, the one that was set
// first is sprung.
type Trap struct {
	proxy   *Proxy
	match   Match
	fault   fault
	after   After
	caught  chan struct{} // closed when the request has come
	request []byte        // set before caught is closed
	reply   chan string   // what the server answered and the client does not receive
}

// LoseReply lets the next matching request pass and loses the reply: the server has carried it out, and the
// client does not know. All later replies on the connection are lost, too; with Cut it ends at the first.
func (p *Proxy) LoseReply(m Match, after After) *Trap {
	return p.set(&Trap{match: m, fault: loseReply, after: after})
}

// Double sends the next matching request to the server twice. The second copy has a connection of its own,
// without AUTH and SELECT; either may arrive first.
func (p *Proxy) Double(m Match) *Trap {
	return p.set(&Trap{match: m, fault: double})
}

// Held is a request that the proxy holds back.
type Held struct{ trap *Trap }

// Hold holds the next matching request back until Forward. The client's connection ends or hangs, so that the
// client may try again on another one. With Hang, nothing that it sends after the request reaches the server.
func (p *Proxy) Hold(m Match, after After) Held {
	return Held{p.set(&Trap{match: m, fault: hold, after: after})}
}

// Wait waits until the request has come.
func (t *Trap) Wait(tb testing.TB) {
	tb.Helper()
	select {
	case <-t.caught:
	case <-time.After(trapTimeout):
		tb.Fatalf("proxy: no request matched within %v", trapTimeout)
	}
}

// Reply waits until the server has answered (the second copy, if the request was doubled), and returns the
// first bytes of the reply that the client does not receive.
func (t *Trap) Reply(tb testing.TB) string {
	tb.Helper()
	t.Wait(tb)
	select {
	case reply := <-t.reply:
		return reply
	case <-time.After(trapTimeout):
		tb.Fatalf("proxy: no reply within %v to %.200q", trapTimeout, t.request)
		return ""
	}
}

// Wait waits until the request has come.
func (h Held) Wait(tb testing.TB) {
	tb.Helper()
	h.trap.Wait(tb)
}

// Forward sends the request to the server, on a connection of its own without AUTH and SELECT, and returns the
// first bytes of the reply. It waits for the request to come. Every further call sends another copy.
func (h Held) Forward(tb testing.TB) string {
	tb.Helper()
	h.trap.Wait(tb)
	reply, err := h.trap.send()
	if err != nil {
		tb.Fatalf("proxy: forwarding a held request: %v", err)
	}
	return reply
}

func (p *Proxy) set(t *Trap) *Trap {
	t.proxy, t.caught, t.reply = p, make(chan struct{}), make(chan string, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, t)
	return t
}

// spring returns the trap for a request, and unsets it.
func (p *Proxy) spring(request []byte) *Trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.traps, func(t *Trap) bool { return t.match(request) })
	if i < 0 {
		return nil
	}
	t := p.traps[i]
	p.traps = slices.Delete(p.traps, i, i+1)
	return t
}

// takeRequest springs the trap on a request, and reports whether the trap keeps the request from the server.
func (t *Trap) takeRequest(l *link, request []byte) bool {
	t.request = request
	close(t.caught)
	switch t.fault {
	case loseReply:
		l.loss.Store(t)
	case double:
		t.proxy.running.Go(func() {
			if reply, err := t.send(); err == nil {
				t.reply <- reply
			}
		})
	case hold:
		if t.after == Cut {
			l.Cut()
		}
	}
	return t.fault == hold
}

// takeReply gets a reply that the client must not receive.
func (t *Trap) takeReply(l *link, reply []byte) {
	select {
	case t.reply <- string(reply):
	default: // only the first counts
	}
	if t.after == Cut {
		l.Cut()
	}
}

// send sends the request on a connection of its own and waits for the reply.
func (t *Trap) send() (string, error) {
	c, err := t.proxy.dial()
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(t.proxy.ctx, func() { c.Close() })()
	if err := c.SetDeadline(time.Now().Add(trapTimeout)); err != nil {
		return "", err
	}
	if _, err := c.Write(t.request); err != nil {
		return "", err
	}
	buffer := make([]byte, 64<<10)
	n, err := c.Read(buffer)
	return string(buffer[:n]), err
}
