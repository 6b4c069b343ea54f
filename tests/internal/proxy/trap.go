package proxy

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"
)

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
