package virtual

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/redis/go-redis/v9"
)

// voiceless is a proxy without pub/sub.
type voiceless struct {
	srv        *holdfasttest.Server
	subscribed func(client net.Conn) // called if a client subscribes
	scripts    atomic.Int64
}

func (p *voiceless) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	server, err := p.srv.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	go func() {
		_, _ = io.Copy(ours, server)
		_ = ours.Close()
	}()
	go func() {
		defer server.Close()
		defer ours.Close()
		for request := make([]byte, 1<<20); ; {
			n, err := ours.Read(request)
			switch {
			case err != nil:
				return
			case bytes.Contains(request[:n], []byte("\r\nsubscribe\r\n")):
				p.subscribed(ours)
				continue
			case bytes.Contains(request[:n], []byte("\r\nevalsha\r\n")):
				p.scripts.Add(1)
			}
			if _, err := server.Write(request[:n]); err != nil {
				return
			}
		}
	}()
	return theirs, nil
}

// Fault: A proxy before the server refuses to subscribe, cuts the connection, says nothing, or confirms subscriptions of which the server
// does not know. Waiters of many locks poll, get their locks, and keep neither the server nor each other busy.
func TestManyWaitersWhomTheServerDoesNotKnow(t *testing.T) {
	for what, subscribed := range map[string]func(client net.Conn){
		"refuses":  func(c net.Conn) { _, _ = io.WriteString(c, "-ERR unknown command 'subscribe'\r\n") },
		"cuts":     func(c net.Conn) { _ = c.Close() },
		"swallows": func(net.Conn) {},
		"quits":    func(c net.Conn) { _, _ = io.WriteString(c, "-ERR unsupported command\r\n"); _ = c.Close() },
		"confirms": nil,
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
				const locks, minutes = 10, 2
				var d unheard
				p := &voiceless{srv: srv, subscribed: subscribed}
				scripts, waiter := &d.asked, (*holdfast.Client)(nil)
				if subscribed == nil {
					waiter = client(t, srv, d.wrap)
				} else {
					scripts, waiter = &p.scripts, opened(t, p.dial, holdfast.Config{}, func(*redis.Options) {})
				}
				holder := client(t, srv)
				var held []*holdfast.Lease
				var waits []*waiting
				for i := range locks {
					held = append(held, acquire(t, holder.Mutex(fmt.Sprint("lock", i))))
					waits = append(waits, wait(t, waiter.Mutex(fmt.Sprint("lock", i))))
				}
				time.Sleep(20 * time.Second) // until all poll
				scripts.Store(0)
				d.subscriptions.Store(0)
				time.Sleep(minutes * time.Minute)
				// A second between two polls, less a tenth for jitter, and three attempts to be heard every 30 s, once more
				// than fit into these minutes.
				if most := int64(locks * minutes * 60 * 5 / 4); scripts.Load() > most {
					t.Errorf("%d scripts in %d minutes; %d polls a second are at most %d", scripts.Load(), minutes, locks, most)
				}
				if n, most := d.subscriptions.Load(), int64((2*minutes+1)*3); n > most {
					t.Errorf("%d subscriptions in %d minutes, want %d at most", n, minutes, most)
				}
				for i, lease := range held {
					release(t, lease)
					waits[i].served(t, 2*time.Second)
				}
			})
		})
	}
}
