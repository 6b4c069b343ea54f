package conformance

import (
	"bufio"
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

// way is what lies between clients and the server.
type way struct {
	network.Network
	listener net.Listener
	server   string
	lock     string       // the lock's key, by which requests for it are recognised
	requests atomic.Int64 // that came from clients, about
	links    sync.WaitGroup

	subscribing network.Gate // shut if no request to subscribe reaches the server

	mu    sync.Mutex
	trap  *trap
	asked time.Time // when the latest request for the lock came that was not trapped
	made  int       // connections
	mute  int       // the earliest connections, on whose subscriptions nothing is heard
}

// trap is for the next request for the lock.
type trap struct {
	keeps chan<- []byte // gets it, instead of the server; nil if it passes, and no reply does from then on
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

// keep keeps back the next request for the lock, and what follows it on its connection. The channel gets the request.
func (w *way) keep() <-chan []byte {
	request := make(chan []byte, 1)
	w.set(&trap{request})
	return request
}

// loseReplies loses all replies, from that to the next request for the lock on.
func (w *way) loseReplies() { w.set(&trap{}) }

// set sets a trap, or none if t is nil.
func (w *way) set(t *trap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trap = t
}

// latest returns when the latest request for the lock came that was not trapped.
func (w *way) latest() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// silence makes the subscriptions silent that there are. Their connections stay.
func (w *way) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = w.made
}

// deliver brings a request to the server that was kept back, and returns when it was carried out.
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
	return errors.New("the server closes the connection")
}

// link is a client's connection.
type link struct {
	way    *way
	number int
	deaf   bool // a request was kept back

	mu         sync.Mutex
	pending    []byte // what the client has sent since it got a reply
	subscribed bool
}

func (l *link) request(chunk []byte) bool {
	l.way.requests.Add(1)
	if strings.Contains(strings.ToLower(string(chunk)), "subscribe") {
		l.way.subscribing.Pass(nil)
		l.mu.Lock()
		l.subscribed = true
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, chunk...)
	if strings.Contains(string(l.pending), l.way.lock) {
		l.deaf = l.deaf || l.way.traps(l.pending)
	}
	return !l.deaf
}

// traps reports whether a request for the lock is kept back.
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
