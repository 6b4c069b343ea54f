package conformance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/network"
)

// way is the network between clients and the server.
type way struct {
	network.Network
	listener net.Listener
	server   string
	lock     string       // the lock's key, which requests for the lock contain
	requests atomic.Int64 // that came from clients, about, but for pings
	pings    atomic.Int64
	links    sync.WaitGroup

	subscribing network.Gate // while shut, no request to subscribe reaches the server

	mu    sync.Mutex
	trap  *trap
	asked time.Time // when a request for the lock last came without a trap
	made  int       // number of connections so far
	mute  int       // the connections up to this number get no messages
}

// trap catches the next request for the lock.
type trap struct {
	keeps chan<- []byte // gets the request instead of the server. If it is nil, the request passes, and replies are lost from then on
}

func newWay(server, lock string) (*way, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &way{listener: listener, server: server, lock: lock}
	w.links.Go(w.accept)
	return w, nil
}

func (w *way) addr() string { return w.listener.Addr().String() }

func (w *way) accept() {
	for {
		from, err := w.listener.Accept()
		if err != nil {
			return // closed
		}
		w.links.Go(func() {
			to, err := net.Dial("tcp", w.server)
			if err != nil {
				from.Close()
				return
			}
			w.mu.Lock()
			w.made++
			l := &link{way: w, number: w.made}
			w.mu.Unlock()
			w.NewLink(from, to).Run(network.Tap{Request: l.request, Reply: l.reply})
		})
	}
}

func (w *way) close() {
	w.listener.Close()
	w.Close()
	w.links.Wait()
}

// keep holds back the next request for the lock, and all later ones on its connection. The channel gets the request.
func (w *way) keep() <-chan []byte {
	request := make(chan []byte, 1)
	w.set(&trap{request})
	return request
}

// loseReplies loses all replies, beginning with that to the next request for the lock.
func (w *way) loseReplies() { w.set(&trap{}) }

// set sets a trap, or none if t is nil.
func (w *way) set(t *trap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trap = t
}

// latest returns when a request for the lock last came without a trap.
func (w *way) latest() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// silence loses all messages to subscriptions on the present connections, which stay.
func (w *way) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = w.made
}

// deliver sends the server a request that was kept back, and returns when it has been carried out.
func (w *way) deliver(ctx context.Context, request []byte) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.server)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write(append(slices.Clone(request), "*2\r\n$4\r\nECHO\r\n$9\r\ndelivered\r\n"...)); err != nil {
		return err
	}
	for in := bufio.NewScanner(conn); in.Scan(); {
		if in.Text() == "delivered" {
			return nil
		}
	}
	return errors.New("the server closed the connection")
}

// link is a client's connection.
type link struct {
	way    *way
	number int
	deaf   bool // a request was kept back

	mu         sync.Mutex
	pending    []byte // what the client has sent since the last reply
	subscribed bool
}

func (l *link) request(chunk []byte) bool {
	if bytes.EqualFold(chunk, []byte("*1\r\n$4\r\nPING\r\n")) {
		l.way.pings.Add(1)
	} else {
		l.way.requests.Add(1)
	}
	subscribes := strings.Contains(strings.ToLower(string(chunk)), "subscribe")
	if subscribes {
		l.way.subscribing.Pass(nil)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscribed = l.subscribed || subscribes
	l.pending = append(l.pending, chunk...)
	if strings.Contains(string(l.pending), l.way.lock) {
		l.deaf = l.deaf || l.way.traps(l.pending)
	}
	return !l.deaf
}

// traps springs the trap, if there is one, and reports whether it keeps the request.
func (w *way) traps(request []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.trap
	if t == nil {
		w.asked = time.Now()
		return false
	}
	w.trap = nil
	if t.keeps == nil {
		w.SwallowReplies(true)
		return false
	}
	t.keeps <- request
	return true
}

func (l *link) reply([]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = nil
	l.way.mu.Lock()
	defer l.way.mu.Unlock()
	return !l.subscribed || l.number > l.way.mute
}
