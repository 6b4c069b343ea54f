package virtual

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// server returns a client of the server itself.
func server(t *testing.T, srv *holdfasttest.Server) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: srv.Dial})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Fault: The server's clock is behind its fence counter, as after the clock went back. Fences rise one at a time: a process passes
// a lock on only with fences that it has reserved, and the next process gets the one after the last.
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
			} else {
				lease = w.granted(t)
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
					expect.Err(t, "TryAcquire of a lock that is held", err, holdfast.ErrHeld)
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
			expect.Of(rdb.PTTL(t.Context(), "holdfast:fences").Result()).Is(t, "after "+what+" the fence counter's TTL", -1)
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

// trap delays the first matching request, or its reply, until it is released.
type trap struct {
	held, letGo chan struct{}
}

func newTrap() *trap { return &trap{make(chan struct{}), make(chan struct{})} }

func (d *trap) hold() {
	select {
	case <-d.held: // one has been held back
	default:
		close(d.held)
		<-d.letGo
	}
}

// inLine acquires the lock in a goroutine, and returns when that is in the wait queue.
func inLine(t *testing.T, l *holdfast.Lock) *waiting {
	t.Helper()
	w := &waiting{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lease, w.err = l.Acquire(t.Context())
	}()
	synctest.Wait()
	return w
}

// A holder reserves fences for a waiting goroutine. Before it hears of them, the server loses its data, and the
// holder claims its lock again. The counter knows nothing of those fences, and its clock is behind them.
func TestFencesThatWereReservedBeforeALossAreNotUsed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		const ttl = 150 * time.Millisecond
		rdb := server(t, srv)
		backend.SetCounter(t, rdb, "holdfast:fences", time.Now().Add(time.Hour).UnixMicro())
		d := newTrap()
		c := client(t, srv, meddle(func(r request) (string, error) {
			reply, err := r.send()
			if r.Script.Name == "renew" && r.Args[3] != "0" {
				d.hold()
			}
			return reply, err
		}))
		lock := c.Mutex("a", holdfast.TTL(ttl))

		first := acquire(t, lock)
		second := inLine(t, lock)
		<-d.held
		srv.FlushAll()
		expect.OK(t, first.Extend(t.Context(), ttl))
		close(d.letGo)
		synctest.Wait()
		seen := first.Fence()
		release(t, first)
		second.granted(t)
		for _, lease := range []*holdfast.Lease{second.lease, nil} {
			if lease == nil {
				lease = acquire(t, configured(t, srv, holdfast.Config{ViaClient: true}).Mutex("a")) // which takes one fence
			}
			expect.Rises(t, seen, lease.Fence())
			seen = lease.Fence()
			release(t, lease)
		}
	})
}

// A lease is released when it was extended beyond the TTL, or while it is. The waiting goroutine did not ask for so much:
// if its process died, everybody would wait for the extended time.
func TestALeaseThatIsBeingExtendedIsNotPassedOn(t *testing.T) {
	for _, meanwhile := range []bool{true, false} {
		bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
			const ttl, long = 10 * time.Second, 20 * time.Minute
			d := newTrap()
			lock := configured(t, srv, holdfast.Config{MaxTTL: time.Hour}, meddle(func(r request) (string, error) {
				if meanwhile && r.Script.Name == "renew" && r.Args[2] == strconv.FormatInt(long.Milliseconds(), 10) {
					d.hold()
				}
				return r.send()
			})).Mutex("a", holdfast.TTL(ttl))

			// The second lease has reserved fences for the third.
			first := acquire(t, lock)
			second, third := inLine(t, lock), inLine(t, lock)
			release(t, first)
			second.granted(t)
			time.Sleep(20 * time.Millisecond) // until its first renewal has reserved a fence for the third
			extended := async(func() error { return second.lease.Extend(t.Context(), long) })
			want := error(nil)
			if meanwhile {
				want = holdfast.ErrReleased
				<-d.held
			} else {
				synctest.Wait()
			}
			release(t, second.lease)
			close(d.letGo)
			third.granted(t)
			expect.Equal(t, "Extend", <-extended, want)
			expect.Between(t, "how long the next lease lasts", time.Until(third.lease.Deadline()), 0, ttl)
			expect.Between(t, "how long it lasts on the server", left(t, srv, "a"), 0, ttl)
			release(t, third.lease)
		})
	}
}

// Fault: An answer has a fence that is far too high. It is shown to nobody: wherever it was seen, it would shut out
// all later holders.
func TestFencesBeyondBelief(t *testing.T) {
	const forged = 8_999_999_999_999_000
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		lie := func(about string) wrapper {
			return meddle(func(r request) (string, error) {
				reply, err := r.send()
				words := strings.Fields(reply)
				switch {
				case r.Script.Name == about && len(words) == 5 && words[4] != "0": // granted, renewed: NOW PTTL FENCE BLOCK
					words[3] = strconv.Itoa(forged)
				case r.Script.Name == "batch_"+about && len(words) == 3: // taken NOW FENCE
					words[2] = strconv.Itoa(forged)
				default:
					return reply, err
				}
				return strings.Join(words, " "), err
			})
		}
		_, err := configured(t, srv, cfg, lie("acquire")).Mutex("a").Acquire(t.Context())
		expect.ErrSays(t, "Acquire", err, holdfast.ErrMismatch, `"holdfast:fences"`)
		release(t, acquire(t, client(t, srv).Mutex("a"))) // it was given back

		lock := configured(t, srv, cfg, lie("renew")).Mutex("a", holdfast.TTL(150*time.Millisecond))
		first := acquire(t, lock)
		second := inLine(t, lock)
		time.Sleep(90 * time.Millisecond)
		release(t, first)
		second.granted(t)
		expect.Rises(t, second.lease.Fence(), forged)
		release(t, second.lease)
	})
}
