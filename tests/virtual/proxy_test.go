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

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// voiceless is a proxy without pub/sub.
type voiceless struct {
	srv                             *holdfasttest.Server
	subscribed                      func(client net.Conn) // called if a client subscribes
	scripts, subscriptions, dialled atomic.Int64
}

func (p *voiceless) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	p.dialled.Add(1)
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
				p.subscriptions.Add(1)
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

// Fault: A proxy before the server refuses to subscribe, cuts the connection, or says nothing. Waiters poll, get
// their locks, and keep nobody busy.
func TestWaitersBehindAProxyWithoutPubSub(t *testing.T) {
	for what, subscribed := range map[string]func(client net.Conn){
		"refuses":  func(c net.Conn) { _, _ = io.WriteString(c, "-ERR unknown command 'subscribe'\r\n") },
		"cuts":     func(c net.Conn) { _ = c.Close() },
		"swallows": func(net.Conn) {},
		"quits":    func(c net.Conn) { _, _ = io.WriteString(c, "-ERR unsupported command\r\n"); _ = c.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
				p := &voiceless{srv: srv, subscribed: subscribed}
				rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: p.dial, PoolSize: 4096})
				t.Cleanup(func() { _ = rdb.Close() })
				c, err := holdfastgoredis.New(rdb, nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := c.Close(context.Background()); err != nil {
						t.Errorf("Close: %v", err)
					}
				})
				const locks = 10
				holder := client(t, srv)
				var held []*holdfast.Lease
				var waits []*waiting
				for i := range locks {
					held = append(held, acquire(t, holder.Mutex(fmt.Sprint("lock", i))))
					waits = append(waits, wait(t, c.Mutex(fmt.Sprint("lock", i))))
				}
				time.Sleep(20 * time.Second) // until all poll
				for _, n := range []*atomic.Int64{&p.scripts, &p.subscriptions, &p.dialled} {
					n.Store(0)
				}
				const minutes = 2
				time.Sleep(minutes * time.Minute)
				t.Logf("in %d minutes: %d scripts, %d subscriptions, %d connections", minutes, p.scripts.Load(), p.subscriptions.Load(), p.dialled.Load())
				if most := int64(locks * minutes * 60 * 5 / 4); p.scripts.Load() > most {
					t.Errorf("%d scripts in %d minutes; %d polls a second are at most %d", p.scripts.Load(), minutes, locks, most)
				}
				for i, lease := range held {
					release(t, lease)
					waits[i].served(t, 2*time.Second)
				}
			})
		})
	}
}
