package virtual

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// limiter is a circuit breaker of a program's.
type limiter struct {
	open  atomic.Bool
	asked atomic.Int64
}

func (l *limiter) Allow() error {
	l.asked.Add(1)
	if l.open.Load() {
		return errors.New("refused by the limiter")
	}
	return nil
}

func (l *limiter) ReportResult(error) {}

// client returns a holdfast.Client over a go-redis client that has the limiter.
func (l *limiter) client(t *testing.T, srv *holdfasttest.Server) *holdfast.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Limiter: l, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return srv.Dial(ctx, network, addr)
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := holdfastgoredis.New(rdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// A limiter is asked about each acquire, also of a lone caller.
func TestALimiterIsAskedAboutEachAcquire(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var limits limiter
		l := limits.client(t, srv).Mutex("a")
		for i := range 5 {
			asked := limits.asked.Load()
			lease, err := l.Acquire(t.Context())
			if err == nil {
				err = lease.Release(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			if limits.asked.Load() == asked {
				t.Errorf("acquire %d went past the limiter", i)
			}
			time.Sleep(10 * time.Millisecond) // a connection for lone callers would be made meanwhile
		}
	})
}

// Fault: The program's go-redis client has a limiter, which refuses all commands for a while. Leases are renewed and released
// all the same.
func TestALimiterCostsNoLease(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var l limiter
		c := l.client(t, srv)
		lease, err := c.Mutex("a", holdfast.TTL(10*time.Second)).Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l.open.Store(true)
		time.Sleep(time.Minute)
		if err := lease.Err(); err != nil {
			t.Errorf("the lease is over: %v", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
}
