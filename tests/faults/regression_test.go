package faults

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

// tombstones returns how many tombstones the lock's queue has.
func tombstones(t *testing.T, rdb *redis.Client) int64 {
	t.Helper()
	n, err := rdb.ZCount(t.Context(), "holdfast:{a}:q", "-inf", "(0").Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Fault: A copy of a TryAcquire that was answered "held" comes when the lock is free. It takes nothing, or gives it back.
func TestLateCopyOfATryThatFoundTheLockHeldTakesNothing(t *testing.T) {
	t.Parallel()
	b := onePlace(t)
	p := proxy.New(t, b.Server.Addr())
	eachWay(t, p, patient, func(t *testing.T, c *holdfast.Client, w way) {
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("a"))
		held := p.Hold(w.acquiring("a"), proxy.Cut)
		if _, err := c.Mutex("a", holdfast.TTL(longest)).TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("TryAcquire: %v", err)
		}
		if w.native {
			backend.Release(t, lease)
			givenBack(t, b, held)
			return
		}
		backend.Eventually(t, "the tombstone stands", func() bool { return slices.Contains(b.Keys(t), "holdfast:{a}:q") })
		backend.Release(t, lease)
		if reply := held.Forward(t); !w.refused(reply, "gone") {
			t.Errorf("the late copy is answered %q", reply)
		}
		b.Cleaned(t)
	})
}

// Fault: A lock is deleted, and a late copy of its acquire brings it back with the same token. The lease is lost:
// somebody may have held the lock in between.
func TestDeletedLockThatALateCopyBringsBackIsLost(t *testing.T) {
	t.Parallel()
	b := onePlace(t)
	p := proxy.New(t, b.Server.Addr())
	eachWay(t, p, patient, func(t *testing.T, c *holdfast.Client, w way) {
		b.clients = []*holdfast.Client{c}
		held := p.Hold(w.acquiring("a"), proxy.Cut)
		lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(6*time.Second)))
		do(t, b.Server, "DEL", "holdfast:{a}")
		if reply := held.Forward(t); !w.granted(reply) {
			t.Fatalf("the late copy is answered %q", reply)
		}
		taken(t, lease)
		b.Cleaned(t)
	})
}
