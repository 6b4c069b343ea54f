package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/network"
	"github.com/holdfast-go/holdfast/tests/internal/resp"
)

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
