package proxy

import (
	"bufio"
	"bytes"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/resp"
)

// link is a client's connection and the corresponding one to the server. Each direction has a goroutine that
// reads and one that writes, so that a delay holds up no reading.
type link struct {
	proxy    *Proxy
	client   net.Conn
	server   net.Conn
	requests chan packet
	replies  chan packet
	cutOnce  sync.Once
	broken   chan struct{}        // closed when everything on its way is lost
	loss     atomic.Pointer[Trap] // gets the replies instead of the client

	subscribed atomic.Bool
}

// packet is some bytes on their way, due at a time.
type packet struct {
	data []byte
	due  time.Time
}

func newLink(p *Proxy, client, server net.Conn) *link {
	return &link{
		proxy:    p,
		client:   client,
		server:   server,
		requests: make(chan packet, 1024),
		replies:  make(chan packet, 1024),
		broken:   make(chan struct{}),
	}
}

// run returns when both connections have ended. It passes the client's end on to the server behind the requests
// that are on their way, and the server's end to the client behind the replies.
func (l *link) run() {
	var pumps sync.WaitGroup
	pumps.Go(l.readRequests)
	pumps.Go(l.readReplies)
	pumps.Go(func() {
		l.deliver(l.requests, l.server)
		if half, ok := l.server.(*net.TCPConn); ok {
			_ = half.CloseWrite() // fails if the server has already gone
		}
	})
	pumps.Go(func() {
		l.deliver(l.replies, l.client)
		l.client.Close()
	})
	pumps.Wait()
	l.cut()
}

func (l *link) cut() {
	l.cutOnce.Do(func() {
		close(l.broken)
		l.client.Close()
		l.server.Close()
	})
}

func (l *link) readRequests() {
	defer close(l.requests)
	in := bufio.NewReader(l.client)
	deaf := false // a request was held: nothing that follows it passes either
	for {
		request, err := resp.ReadRequest(in)
		if err != nil {
			return
		}
		if deaf {
			continue
		}
		if subscribes(request) {
			l.subscribed.Store(true)
		}
		if t := l.proxy.spring(request); t != nil && t.takeRequest(l, request) {
			deaf = true
			continue
		}
		l.send(l.requests, request, &l.proxy.requestDelay)
	}
}

func (l *link) readReplies() {
	defer close(l.replies)
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buffer)
		if err != nil {
			return
		}
		reply := slices.Clone(buffer[:n])
		if t := l.loss.Load(); t != nil {
			t.takeReply(l, reply)
		} else if !l.proxy.swallow.Load() && !(l.proxy.deafen.Load() && l.subscribed.Load()) {
			l.send(l.replies, reply, &l.proxy.replyDelay)
		}
	}
}

// subscribes reports whether a request is a SUBSCRIBE of any kind.
func subscribes(request []byte) bool {
	words := bytes.SplitN(request, []byte("\r\n"), 4)
	return len(words) == 4 && bytes.HasSuffix(bytes.ToLower(words[2]), []byte("subscribe"))
}

func (l *link) send(to chan<- packet, data []byte, delay *atomic.Int64) {
	select {
	case to <- packet{data, time.Now().Add(time.Duration(delay.Load()))}:
	case <-l.broken:
	}
}

// deliver writes packets, each at its time, until there are no more. If the other side has gone it discards
// them, so that no sender waits for room.
func (l *link) deliver(packets <-chan packet, to net.Conn) {
	gone := false
	for pk := range packets {
		if gone {
			continue
		}
		select {
		case <-time.After(time.Until(pk.due)):
			_, err := to.Write(pk.data)
			gone = err != nil
		case <-l.broken:
			gone = true
		}
	}
}
