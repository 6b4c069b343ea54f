package faults

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/backend"
)

// Row 14: the server is short of memory, and its policy lets it evict locks.
func TestEviction(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 3 * time.Second
		rdb := b.Redis(t)
		for _, policy := range []string{"volatile-lru", "volatile-ttl", "allkeys-lru"} {
			do(t, b.Server, "CONFIG", "SET", "maxmemory-policy", policy)
			var r backend.Resource
			holder := backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(ttl)))
			r.Write(holder.Token())
			waiting := backend.Start(t, b.Client(t, nil).Mutex("a"))
			backend.Waiters(t, b.Client(t, nil).Mutex("a"), 1)

			evicted := b.Server.Info("stats")["evicted_keys"]
			do(t, b.Server, "CONFIG", "SET", "maxmemory", "1")
			backend.Eventually(t, "lock and queue are evicted", func() bool {
				return rdb.Exists(t.Context(), "holdfast:{a}", "holdfast:{a}:q").Val() == 0
			})
			begun := time.Now()
			told := make(chan time.Duration, 1)
			context.AfterFunc(holder.Context(), func() { told <- time.Since(begun) })
			counter := rdb.Exists(t.Context(), "holdfast:fence").Val()
			do(t, b.Server, "CONFIG", "SET", "maxmemory", "0")
			if now := b.Server.Info("stats")["evicted_keys"]; now == evicted {
				t.Fatalf("%s: nothing was evicted; %s keys in all", policy, now)
			}
			if (counter == 0) != (policy == "allkeys-lru") {
				t.Errorf("%s: the fence counter: %d", policy, counter)
			}

			// A newcomer finds neither lock nor queue; the waiter comes back to its queue
			// when the lock it saw would have expired.
			newcomer := backend.Acquire(t, b.Client(t, nil).Mutex("a"))
			overlap := r.Succeed(t, holder, newcomer)
			taken(t, holder, ttl)
			backend.Release(t, newcomer)
			next := backend.Receive(t, waiting)
			served := time.Since(begun)
			r.Succeed(t, newcomer, next)
			t.Logf("%s: the holder is told %s after the eviction, the waiter is served after %s; overlap: %v",
				policy, (<-told).Round(time.Millisecond), served.Round(time.Millisecond), overlap)
			backend.Release(t, next)
		}
		b.Cleaned(t)
	})
}
