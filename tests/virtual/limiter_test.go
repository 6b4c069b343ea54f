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
type limiter struct{ open atomic.Bool }

func (l *limiter) Allow() error {
	if l.open.Load() {
		return errors.New("refused by the limiter")
	}
	return nil
}

func (l *limiter) ReportResult(error) {}

// Fault: The program's go-redis client has a limiter, which refuses all commands for a while. Leases are renewed and released
// all the same.
func TestALimiterCostsNoLease(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var l limiter
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Limiter: &l, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return srv.Dial(ctx, network, addr)
		}})
		t.Cleanup(func() { _ = rdb.Close() })
		c, err := holdfastgoredis.New(rdb, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
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
