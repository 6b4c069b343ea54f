package network

import (
	"bufio"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Tap sees what passes on a link, and may take it. Nil fields take nothing.
type Tap struct {
	// Read reads one request from a client. By default a request is whatever has come.
	Read func(in *bufio.Reader) ([]byte, error)
	// Request reports whether a request goes on to the server. One goroutine at a time calls it for each link.
	Request func(request []byte) bool
	// Reply reports whether what the server has sent goes on to the client, if the network does not swallow it.
	Reply func(reply []byte) bool
}

// Link is a client's connection and the corresponding one to the server. Each direction has a goroutine that reads and one
// that writes, so that packets are read while earlier ones are still delayed.
type Link struct {
	network  *Network
	client   net.Conn
	server   net.Conn
	tap      Tap
	requests chan packet
	replies  chan packet
	cutOnce  sync.Once
	broken   chan struct{} // closed when everything on its way is lost
}

// packet is some bytes on their way, due at a time. The packets of a direction are a linked list of channels, so that a sender never waits
// for room.
type packet struct {
	data []byte
	due  time.Time
	next chan packet // receives the packet behind this one, or is closed
}

// NewLink joins a client's connection to one to the server. Nothing passes before Run.
func (n *Network) NewLink(client, server net.Conn) *Link {
	return &Link{
		network:  n,
		client:   client,
		server:   server,
		requests: make(chan packet, 1),
		replies:  make(chan packet, 1),
		broken:   make(chan struct{}),
	}
}

// Run returns when both connections have ended. It passes the client's end on to the server behind the requests that are on
// their way, and the server's end to the client behind the replies.
func (l *Link) Run(tap Tap) {
	l.tap = tap
	l.network.add(l)
	defer l.network.remove(l)
	var pumps sync.WaitGroup
	pumps.Go(l.readRequests)
	pumps.Go(l.readReplies)
	pumps.Go(func() {
		l.deliver(l.requests, l.server)
		if half, ok := l.server.(*net.TCPConn); ok {
			_ = half.CloseWrite() // fails if the server has already gone
			return
		}
		l.server.Close()
	})
	pumps.Go(func() {
		l.deliver(l.replies, l.client)
		l.client.Close()
	})
	pumps.Wait()
	l.Cut()
}

// Cut cuts both connections. Whatever is on its way is lost.
func (l *Link) Cut() {
	l.cutOnce.Do(func() {
		l.client.Close()
		l.server.Close()
		close(l.broken) // after the connections: it makes deliver write delayed packets at once, which must fail
	})
}

func (l *Link) readRequests() {
	to := l.requests
	defer func() { close(to) }()
	read := l.tap.Read
	if read == nil {
		read = chunk
	}
	in := bufio.NewReader(l.client)
	for {
		request, err := read(in)
		if err != nil {
			return
		}
		if l.tap.Request == nil || l.tap.Request(request) {
			to = send(to, request, &l.network.requestDelay)
		}
	}
}

// chunk reads whatever has come.
func chunk(in *bufio.Reader) ([]byte, error) {
	buffer := make([]byte, 64<<10)
	n, err := in.Read(buffer)
	return buffer[:n], err
}

func (l *Link) readReplies() {
	to := l.replies
	defer func() { close(to) }()
	buffer := make([]byte, 64<<10)
	lost := false
	for {
		n, err := l.server.Read(buffer)
		if err != nil {
			return
		}
		reply := slices.Clone(buffer[:n])
		lost = lost || l.network.swallow.Load()
		if (l.tap.Reply == nil || l.tap.Reply(reply)) && !lost {
			to = send(to, reply, &l.network.replyDelay)
		}
	}
}

// send sends a packet and returns the channel for the one behind it.
func send(to chan<- packet, data []byte, delay *atomic.Int64) (next chan packet) {
	next = make(chan packet, 1)
	to <- packet{data, time.Now().Add(time.Duration(delay.Load())), next}
	return next
}

// deliver writes packets, each at its time, until there are no more. If the other side has gone it discards them.
func (l *Link) deliver(packets <-chan packet, to net.Conn) {
	gone := false
	for pk, more := <-packets; more; pk, more = <-pk.next {
		if gone {
			continue
		}
		if wait := time.Until(pk.due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-l.broken:
			}
		}
		if gone = !l.network.part.Pass(l.broken); !gone {
			_, err := to.Write(pk.data)
			gone = err != nil
		}
	}
	l.network.part.Pass(l.broken) // a connection's end does not pass either
}
