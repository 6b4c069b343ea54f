package behaviour

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
)

// Nothing is left of clients whose goroutines gave up, lost their locks, and went away:
// no goroutine, key, channel or connection.
func TestNothingIsLeftBehind(t *testing.T) {
	inTurn := backend.EachInTurn
	if testing.Short() { // on real servers it waits for long, and nothing can run beside it
		inTurn = func(t *testing.T, f func(t *testing.T, b *backend.Backend)) {
			t.Run("embedded", func(t *testing.T) { backend.Virtual(t, f) })
		}
	}
	inTurn(t, func(t *testing.T, b *backend.Backend) {
		observer := b.Redis(t, func(o *redis.Options) { o.PoolSize = 1 })
		observer.Ping(t.Context())
		goroutines := runtime.NumGoroutine()
		t.Cleanup(func() {
			if runtime.NumGoroutine() > goroutines && t.Failed() {
				_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
			}
		})
		for range 3 {
			var rdbs []*redis.Client
			var clients []*holdfast.Client
			for range 3 {
				rdb := b.Redis(t)
				c, err := holdfast.New(holdfastgoredis.New(rdb), &holdfast.Config{CommandTimeout: 4 * time.Second, RetryTimeout: 500 * time.Millisecond}) // tombstones stand for 5.5 s
				if err != nil {
					t.Fatal(err)
				}
				rdbs, clients = append(rdbs, rdb), append(clients, c)
			}
			var wg sync.WaitGroup
			for g := range 60 {
				wg.Go(func() {
					for n := range 5 {
						l := clients[g%3].Mutex(fmt.Sprint("m", n%3), holdfast.TTL(time.Minute))
						ctx, cancel := context.WithTimeout(t.Context(), rand.N(15*time.Millisecond))
						lease, err := l.Acquire(ctx)
						cancel()
						if err != nil {
							if !errors.Is(err, context.DeadlineExceeded) {
								t.Error(err)
							}
							continue
						}
						if n == 4 {
							observer.Del(t.Context(), "holdfast:{"+l.Name()+"}")
						}
						if err := lease.Release(t.Context()); err != nil && !errors.Is(err, holdfast.ErrLost) {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			for _, c := range clients {
				if err := c.Close(t.Context()); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
			for _, rdb := range rdbs {
				if err := rdb.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		backend.Eventually(t, "the goroutines are gone", func() bool {
			return runtime.NumGoroutine() <= goroutines
		})
		backend.Eventually(t, "the keys are gone", func() bool { return len(b.Keys(t)) == 0 })
		if channels := observer.PubSubChannels(t.Context(), "*").Val(); len(channels) != 0 {
			t.Errorf("subscriptions left behind: %q", channels)
		}
	})
}

// A grant that reaches a client for a token that it does not know, is given back.
func TestAGrantThatNobodyWantsIsGivenBack(t *testing.T) {
	t.Parallel()
	backend.EachUndisturbed(t, func(t testing.TB, b *backend.Backend) {
		rdb := b.Redis(t)
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("other"))
		queue(t, b.Client(t, nil).Mutex("other"), 1) // has a channel
		channel := rdb.PubSubChannels(t.Context(), "holdfast:c:*").Val()[0]

		rdb.Set(t.Context(), "holdfast:{m}", `hf1:stray:7:1:0:{"o":"x"}`, time.Hour)
		rdb.HSet(t.Context(), "orders", "stray:1", 1, "holdfast", `hf1:stray:7:1:0:{"o":"x"}`)
		for _, malformed := range []string{"", "hf1", "hf1 grant", "hf1 grant stray x y z", "hf2 grant stray 1 1 1 k", "hf1 standby stray 1 2"} {
			rdb.Publish(t.Context(), channel, malformed)
		}
		rdb.Publish(t.Context(), channel, "hf1 grant stray 1 3600000 7 holdfast:{m}")
		backend.Eventually(t, "the stray lock is released", func() bool {
			return rdb.Exists(t.Context(), "holdfast:{m}").Val() == 0
		})
		rdb.Publish(t.Context(), channel, "hf1 redisson stray 1 3600000 7 orders")
		backend.Eventually(t, "the stray lock of Redisson's form is released", func() bool {
			return rdb.Exists(t.Context(), "orders").Val() == 0
		})
		backend.Release(t, lease)
	})
}

// While another process waits, a lock is passed on within a process no more often than it may be.
func TestLocalHandoversAreFewWhileOthersWait(t *testing.T) {
	t.Parallel()
	backend.EachRealUndisturbed(t, func(t testing.TB, b *backend.Backend) {
		const limit = 4
		ours, theirs := b.Client(t, &holdfast.Config{LocalHandovers: limit}), b.Client(t, nil)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		var mu sync.Mutex
		inARow, longest := 0, 0
		// turn has the lock. While it holds it it waits until both processes are in the queue, so that
		// whoever is next knows of the other.
		turn := func(c *holdfast.Client, queued int) bool {
			lease, err := c.Mutex("m").Acquire(ctx)
			if err != nil {
				return false
			}
			backend.Eventually(t, "the other process queues", func() bool {
				h, err := c.Mutex("m").Holder(context.Background())
				return err != nil || h.Waiters >= queued || ctx.Err() != nil
			})
			mu.Lock()
			if c == ours {
				inARow++
				longest = max(longest, inARow)
			} else {
				inARow = 0
			}
			mu.Unlock()
			backend.Release(t, lease)
			return true
		}
		for range 3 {
			wg.Go(func() {
				for turn(theirs, 2) {
				}
			})
		}
		backend.Eventually(t, "they have the lock first", func() bool {
			held, err := theirs.Mutex("m").IsHeld(ctx)
			return held && err == nil
		})
		var left atomic.Int32
		left.Store(200)
		done := make(chan struct{})
		for range 16 {
			wg.Go(func() {
				for turn(ours, 1) {
					if left.Add(-1) == 0 {
						close(done)
					}
				}
			})
		}
		<-done
		mu.Lock()
		defer mu.Unlock()
		if longest < 2 || longest > 1+limit {
			t.Errorf("the other process waited for %d leases in a row; at most %d are allowed, and some more than one", longest, 1+limit)
		}
	})
}

// Goroutines of one process pass the lock on without the server, within the bounds.
func TestLocalHandovers(t *testing.T) {
	backend.EachRealInTurn(t, func(t *testing.T, b *backend.Backend) {
		for _, limit := range []int{-1, 4, 0} {
			c := b.Client(t, &holdfast.Config{LocalHandovers: limit})
			const goroutines, cycles = 16, 50
			before, began := scripts(b.Server), time.Now()
			var wg sync.WaitGroup
			var mu sync.Mutex
			last := uint64(0)
			for range goroutines {
				wg.Go(func() {
					for range cycles {
						lease, err := c.Mutex("m").Acquire(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						if !mu.TryLock() {
							t.Error("two are inside")
							return
						}
						if lease.Token() <= last {
							machine.Unexcused(t, "fence %d follows %d", lease.Token(), last)
						}
						last = lease.Token()
						mu.Unlock()
						// The claim of a lock that was handed over may end while the machine stands still.
						if err := backend.Released(lease); err != nil && (!errors.Is(err, holdfast.ErrLost) || !machine.Stalled(began)) {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			each := float64(scripts(b.Server)-before) / (goroutines * cycles)
			switch {
			case limit < 0 && each < 2:
				t.Errorf("switched off: %.2f scripts a cycle", each)
			case limit == 4 && (each < 0.03 || each > 1.5): // a chain is of 64 at most, with two scripts
				t.Errorf("at most 4, or 64 where nobody else waits: %.3f scripts a cycle", each)
			case limit == 0 && each > 0.6:
				t.Errorf("by default: %.2f scripts a cycle", each)
			}
		}
	})
}
