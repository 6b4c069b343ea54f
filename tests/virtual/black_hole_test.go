package virtual

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// hole is a network path to a server that can forget its connections: whatever is sent on them is swallowed
// silently.
type hole struct {
	srv   *holdfasttest.Server
	trip  time.Duration
	epoch atomic.Int64
	made  atomic.Int64
}

func (h *hole) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := h.srv.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	h.made.Add(1)
	return forgotten{conn, h, h.epoch.Load()}, nil
}

type forgotten struct {
	net.Conn
	h     *hole
	epoch int64
}

func (c forgotten) Write(p []byte) (int, error) {
	if c.epoch != c.h.epoch.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c forgotten) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(c.h.trip)
	return n, err
}

// Fault: All connections of a pool die silently, as when an address moves or a firewall forgets them. No lease is
// lost, however many connections releases had opened.
func TestLeasesOutliveConnectionsThatAreAllDead(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		const ttl, goroutines = 15 * time.Second, 60
		h := &hole{srv: srv, trip: 2500 * time.Microsecond}
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: h.dial, PoolSize: 100})
		t.Cleanup(func() { _ = rdb.Close() })
		c, err := holdfastgoredis.New(rdb, &holdfast.Config{ViaClient: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		var held []*holdfast.Lease
		for i := range 20 {
			held = append(held, acquire(t, c.Mutex(fmt.Sprint("held ", i), holdfast.TTL(ttl))))
		}
		var all sync.WaitGroup
		for i := range goroutines {
			time.Sleep(h.trip / goroutines)
			all.Go(func() {
				for range 20 {
					release(t, acquire(t, c.Mutex(fmt.Sprint("cycle ", i))))
				}
			})
		}
		all.Wait()
		if n := h.made.Load(); n < goroutines {
			t.Fatalf("there are only %d connections", n)
		}
		h.epoch.Add(1)
		time.Sleep(3 * ttl)
		for _, lease := range held {
			if err := lease.Err(); err != nil {
				t.Errorf("%s: %v", lease.Name(), err)
			}
			release(t, lease)
		}
	})
}
