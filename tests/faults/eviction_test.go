package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// Fault: The server is short of memory, and its policy evicts locks, queues or the fence counter. Holders are told,
// and fences rise.
func TestEviction(t *testing.T) {
	t.Parallel()
	eachMutex(t, func(t *testing.T, b *backend.Backend) {
		for _, policy := range []string{"volatile-lru", "volatile-ttl", "allkeys-lru"} {
			t.Run(policy, func(t *testing.T) {
				t.Parallel()
				viaClient := b.ViaClient
				b := backend.Real(t, b.Server.Binary())
				b.ViaClient = viaClient
				do(t, b.Server, "CONFIG", "SET", "maxmemory-policy", policy)
				// A renewal that comes between the eviction and the newcomer finds the lock free, too.
				for round := 1; !evicts(t, b, policy); round++ {
					if round == 10 {
						t.Fatalf("%s: the newcomer came too late %d times", policy, round)
					}
				}
				b.Cleaned(t)
			})
		}
	})
}

// evicts evicts a held lock, and then a newcomer acquires it. It returns false if the holder's renewal came
// before the newcomer, and took the lock again, or if the waiter came first.
func evicts(t *testing.T, b *backend.Backend, policy string) bool {
	const ttl = 6 * time.Second
	rdb := b.Redis(t)
	var r backend.Resource
	holder := backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(ttl)))
	r.Write(holder.Fence())
	waiting := backend.Start(t, b.Client(t, nil).Mutex("a"))
	backend.Waiters(t, b.Client(t, nil).Mutex("a"), 1)

	evicted := b.Server.Info("stats")["evicted_keys"]
	do(t, b.Server, "CONFIG", "SET", "maxmemory", "1")
	backend.Eventually(t, "lock and queue are evicted", func() bool {
		return rdb.Exists(t.Context(), "holdfast:{a}", "holdfast:{a}:q").Val() == 0
	})
	begun := time.Now()
	told := make(chan time.Duration, 1)
	context.AfterFunc(holder.Context(context.Background()), func() { told <- time.Since(begun) })
	counter := rdb.Exists(t.Context(), "holdfast:fences").Val()
	do(t, b.Server, "CONFIG", "SET", "maxmemory", "0")
	if now := b.Server.Info("stats")["evicted_keys"]; now == evicted {
		t.Fatalf("%s: nothing was evicted; %s keys in all", policy, now)
	}
	if (counter == 0) != (policy == "allkeys-lru") {
		t.Errorf("%s: the fence counter: %d", policy, counter)
	}

	// A newcomer finds neither lock nor queue. The waiter returns to its queue when the lock that it saw would
	// have expired.
	newcomer, err := b.Client(t, nil).Mutex("a").TryAcquire(t.Context())
	if errors.Is(err, holdfast.ErrHeld) {
		if err := holder.Release(t.Context()); err != nil && !errors.Is(err, holdfast.ErrLost) {
			t.Fatal(err)
		}
		backend.Release(t, backend.Receive(t, waiting))
		return false
	} else if err != nil {
		t.Fatal(err)
	}
	overlap := r.Succeed(t, holder, newcomer)
	taken(t, holder)
	backend.Release(t, newcomer)
	next := backend.Receive(t, waiting)
	served := time.Since(begun)
	r.Succeed(t, newcomer, next)
	t.Logf("%s: the holder is told %s after the eviction, the waiter is served after %s; overlap: %v",
		policy, (<-told).Round(time.Millisecond), served.Round(time.Millisecond), overlap)
	backend.Release(t, next)
	return true
}
