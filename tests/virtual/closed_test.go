package virtual

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// Fault: A program closes its go-redis client, but not the holdfast.Client, and forgets its leases. They end at their deadlines,
// nothing is acquired any more, and the log says once that the program closed its client. Leases can still be released.
func TestAProgramClosesItsRedisClientTooEarly(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		const ttl = 15 * time.Second
		var log journal
		cfg.Logger, cfg.TTL = log.logger(), ttl
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: srv.Dial})
		c, err := holdfastgoredis.New(rdb, &cfg)
		if err != nil {
			t.Fatal(err)
		}
		forgotten, kept, shared := acquire(t, c.Mutex("forgotten")), acquire(t, c.Mutex("kept")), acquire(t, c.RWMutex("shared").Reader())
		t.Cleanup(func() { // if the test fails
			_, _, _ = forgotten.Release(context.Background()), kept.Release(context.Background()), shared.Release(context.Background())
			_ = c.Close(context.Background())
		})
		others := client(t, srv)
		held := acquire(t, others.Mutex("held"))
		queued := wait(t, c.Mutex("held"))
		time.Sleep(time.Minute)
		if err := rdb.Close(); err != nil {
			t.Fatal(err)
		}
		closed := time.Now()
		next, nextShared := wait(t, others.Mutex("forgotten")), wait(t, others.RWMutex("shared").Writer())

		const says = "the program has closed its Redis client"
		for _, name := range []string{"free", "forgotten"} {
			if _, err := c.Mutex(name).TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrClosed) || !strings.Contains(err.Error(), says) {
				t.Errorf("TryAcquire of %s: %v", name, err)
			}
		}
		release(t, kept)
		release(t, acquire(t, others.Mutex("kept")))
		for name, lease := range map[string]*holdfast.Lease{"forgotten": forgotten, "shared": shared} {
			select {
			case <-lease.Done():
			case <-time.After(ttl - time.Since(closed)):
				t.Fatalf("%s is still held", name)
			}
			var lost *holdfast.LostError
			if err := lease.Err(); !errors.As(err, &lost) || lost.Reason != holdfast.LossUnreachable || !errors.Is(err, holdfast.ErrClosed) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", name, err)
			}
		}
		next.served(t, time.Second)
		nextShared.served(t, time.Second)
		if <-queued.done; !errors.Is(queued.err, holdfast.ErrClosed) {
			t.Errorf("the queued waiter: %v", queued.err)
		}
		release(t, held)
		begun := time.Now()
		if err := c.Close(context.Background()); err != nil || time.Since(begun) > 3*time.Second {
			t.Errorf("Close: %v, after %s", err, time.Since(begun))
		}
		if errs := log.lines("ERROR"); len(errs) != 1 || !strings.Contains(errs[0], says) {
			t.Errorf("errors in the log: %q", errs)
		}
		if all := append(log.lines("WARN"), log.lines("INFO")...); strings.Contains(strings.Join(all, "\n"), "holdfast: server") {
			t.Errorf("the log takes it for an outage: %q", all)
		}
	})
}
