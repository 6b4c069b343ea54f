package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
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
	requests atomic.Int64 // approximate number of clients' requests, without pings
	pings    atomic.Int64
	links    sync.WaitGroup

	subscribing network.Gate // while shut, no request to subscribe reaches the server

	mu    sync.Mutex
	trap  func(request []byte) (keeps bool) // unless nil, gets the next request for the lock, and may keep it from the server
	asked time.Time                         // when the latest request for the lock arrived that no trap got
	made  int                               // number of connections so far
	mute  int                               // connections up to this number get no messages
}

func newWay(server, lock string) (*way, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &way{listener: listener, server: server, lock: lock}
	w.links.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return // closed
			}
			w.links.Go(func() { w.carry(from) })
		}
	})
	return w, nil
}

func (w *way) addr() string { return w.listener.Addr().String() }

func (w *way) close() {
	w.listener.Close()
	w.Close()
	w.links.Wait()
}

// carry connects a client's connection with the server.
func (w *way) carry(from net.Conn) {
	to, err := net.Dial("tcp", w.server)
	if err != nil {
		from.Close()
		return
	}
	w.mu.Lock()
	w.made++
	number := w.made
	w.mu.Unlock()
	var pending []byte  // what the client has sent since the last reply; w.mu guards this and the next two
	var subscribed bool // or about to be
	var cutOff bool     // a request was kept back, and so are all later ones
	w.NewLink(from, to).Run(network.Tap{
		Request: func(chunk []byte) bool {
			if bytes.EqualFold(chunk, []byte("*1\r\n$4\r\nPING\r\n")) {
				w.pings.Add(1)
			} else {
				w.requests.Add(1)
			}
			subscribes := bytes.Contains(bytes.ToLower(chunk), []byte("subscribe"))
			if subscribes {
				w.subscribing.Pass(nil)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			subscribed = subscribed || subscribes
			if pending = append(pending, chunk...); !cutOff && bytes.Contains(pending, []byte(w.lock)) {
				if w.trap == nil {
					w.asked = time.Now()
				} else {
					cutOff = w.trap(pending)
					w.trap = nil
				}
			}
			return !cutOff
		},
		Reply: func([]byte) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			pending = nil
			return !subscribed || number > w.mute
		},
	})
}

// keep keeps back the next request for the lock, and all later ones on its connection. The channel receives the request.
func (w *way) keep() <-chan []byte {
	request := make(chan []byte, 1)
	w.set(func(kept []byte) bool { request <- kept; return true })
	return request
}

// loseReplies loses all replies, beginning with that to the next request for the lock.
func (w *way) loseReplies() {
	w.set(func([]byte) bool { w.SwallowReplies(true); return false })
}

// set sets a trap, or none.
func (w *way) set(trap func(request []byte) (keeps bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trap = trap
}

// latest returns when the latest request for the lock arrived that no trap got.
func (w *way) latest() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// silence loses all messages to subscriptions on the present connections, which stay open.
func (w *way) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = w.made
}

// deliver sends the server a request that was kept back, and returns when the server has executed it.
func (w *way) deliver(ctx context.Context, request []byte) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.server)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, written := conn.Write(request)
	closed := conn.(*net.TCPConn).CloseWrite()
	_, read := io.Copy(io.Discard, conn) // until the server has executed the request, and closes the connection
	return errors.Join(written, closed, read)
}
