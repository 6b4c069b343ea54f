package virtual

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// server returns a client of the server itself.
func server(t *testing.T, srv *holdfasttest.Server) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: srv.Dial})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Fault: The server's clock is behind its fence counter, as after the clock went back. Fences rise one at a time: a process passes a lock on
// only with fences that it has reserved, and the next process gets the one after the last.
func TestALockIsNotPassedOnPastTheReservedFences(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		rdb := server(t, srv)
		backend.SetCounter(t, rdb, "holdfast:fences", time.Now().Add(time.Minute).UnixMicro())
		one, other := client(t, srv).Mutex("a"), client(t, srv).Mutex("a")
		lease := acquire(t, one)
		var waits []*waiting
		for range 3 {
			waits = append(waits, wait(t, one))
		}
		last := lease.Fence()
		for _, w := range append(waits, nil) {
			release(t, lease)
			if w == nil {
				lease = acquire(t, other)
			} else if <-w.done; w.err != nil {
				t.Fatal(w.err)
			} else {
				lease = w.lease
			}
			if fence, counted := lease.Fence(), backend.LastFence(t, rdb, "holdfast:fences"); fence <= last || int64(fence) > counted {
				t.Errorf("fence %d follows %d; the server has counted to %d", fence, last, counted)
			}
			last = lease.Fence()
		}
		release(t, lease)
	})
}

// A grant's fence is its time in whole ms, so it can be below the time of the answer that the waiter has had. The waiter believes
// the message all the same.
func TestAGrantInTheMillisecondOfTheAnswerIsBelieved(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		lease := acquire(t, client(t, srv).Mutex("a"))
		var acquires atomic.Int64
		c := client(t, srv, counted("acquire", &acquires))
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second + 100*time.Microsecond)))
		asked := uint64(time.Now().UnixMicro())
		w := inLine(t, c.Mutex("a"))
		time.Sleep(700 * time.Microsecond)
		before := acquires.Load()
		release(t, lease)
		w.granted(t)
		if n := acquires.Load() - before; n > 0 || w.lease.Fence() >= asked {
			t.Errorf("%d acquires follow the message; its fence is %d, the waiter asked at %d", n, w.lease.Fence(), asked)
		}
		release(t, w.lease)
	})
}

// Each lock that is asked for together with others gets its own answer: that it is the caller's, with the value to show, or that another
// holder has it.
func TestEachLockHasItsOwnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c, holder, rdb := client(t, srv), client(t, srv), server(t, srv)
		const locks = 500
		taken := func(i int) bool { return i%3 == 1 }
		release(t, acquire(t, c.Mutex("first"))) // c has reached the server
		var theirs []*holdfast.Lease
		for i := range locks {
			if taken(i) {
				theirs = append(theirs, acquire(t, holder.Mutex(fmt.Sprint(i))))
			}
		}
		var all sync.WaitGroup
		for i := range locks {
			all.Go(func() {
				lease, err := c.Mutex(fmt.Sprint(i)).TryAcquire(t.Context())
				if taken(i) {
					if !errors.Is(err, holdfast.ErrHeld) {
						t.Errorf("TryAcquire of the lock %d, which is held: %v", i, err)
					}
					return
				}
				if err != nil {
					t.Errorf("TryAcquire of the lock %d: %v", i, err)
					return
				}
				value := strings.Split(rdb.Get(t.Context(), fmt.Sprintf("holdfast:{%d}", i)).Val(), ":")
				if len(value) < 3 || value[2] != "0" {
					t.Errorf("the lock %d has the fence %d, and the value %q", i, lease.Fence(), value)
				}
				release(t, lease)
			})
		}
		all.Wait()
		for _, lease := range theirs {
			release(t, lease)
		}
	})
}

// A counter that expired would begin again at the server's clock, which may have gone back. So everything that
// raises it leaves it without an expiry.
func TestTheFenceCounterStays(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		rdb := server(t, srv)
		c, single := client(t, srv), configured(t, srv, holdfast.Config{ViaClient: true})
		stays := func(what string) {
			t.Helper()
			// -1 is what it has without an expiry, -2 if it does not exist.
			if left, err := rdb.PTTL(t.Context(), "holdfast:fences").Result(); left != -1 || err != nil {
				t.Errorf("after %s the fence counter has a TTL of %d, %v", what, left, err)
			}
		}
		take := func(what string, l *holdfast.Lock) {
			t.Helper()
			rdb.Del(t.Context(), "holdfast:fences")
			lease := acquire(t, l)
			stays(what)
			release(t, lease)
			stays("the release of " + what)
		}
		take("a lock by itself", single.Mutex("a"))
		take("a batch of one", c.Mutex("a"))
		take("a reader", c.RWMutex("rw").Reader())
		take("a writer", c.RWMutex("rw").Writer())
		take("a semaphore", c.Semaphore("s", 3).Permits(1))
		take("several locks", c.Multi([]string{"a", "b"}))

		rdb.Del(t.Context(), "holdfast:fences")
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() { release(t, acquire(t, c.Mutex(fmt.Sprint(i)))) })
		}
		all.Wait()
		stays("a batch of many")

		lease, next := acquire(t, c.Mutex("a")), wait(t, client(t, srv).Mutex("a"))
		rdb.Del(t.Context(), "holdfast:fences")
		release(t, lease)
		next.served(t, time.Second)
		stays("a hand-over")
	})
}
