package behaviour

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// An acquire under a lease's context joins the lease without the server; under another owner's lease it is
// refused, since it would wait for that.
func TestOwnersContext(t *testing.T) {
	each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		mine := c.OwnerMutex("a", "me")
		yours := c.OwnerMutex("a", "you")
		lease := backend.Acquire(t, mine)
		inner := again(t, mine, lease)
		if all, err := backend.HoldersOf(t.Context(), mine); err != nil || len(all) != 1 {
			t.Errorf("Holders: %v, %v; want one", all, err)
		}
		if got, err := yours.TryAcquire(lease.Context(context.Background())); !errors.Is(err, holdfast.ErrDeadlock) {
			t.Errorf("another owner with the holder's context: %v, %v", got, err)
		}
		backend.Release(t, lease)
		wantHeld(t, yours)
		backend.Release(t, inner)
		b.Cleaned(t)
	})
}

// Goroutines of one process have a wait queue for each owner: the owner that has the lock does not wait behind
// owners that wait for it.
func TestOwnersDoNotWaitBehindEachOther(t *testing.T) {
	each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		mine := c.OwnerMutex("a", "me")
		yours := c.OwnerMutex("a", "you")
		lease := backend.Acquire(t, mine)
		first := queue(t, yours, 1)
		second := backend.Start(t, yours) // in this process's wait queue
		inner := backend.Acquire(t, mine)
		backend.Release(t, lease)
		wantAsleep(t, "another owner", first)
		backend.Release(t, inner)
		one, two := backend.Receive(t, first), backend.Receive(t, second) // both at once
		expect.Equal(t, "the fence of an owner's second lease", two.Fence(), one.Fence())
		backend.Release(t, one)
		backend.Release(t, two)
		b.Cleaned(t)
	})
}

// Owners with two processes each acquire the lock, and acquire it again. Two owners never have it at once, and
// fences rise from one to the next.
func TestOwnersInAStorm(t *testing.T) {
	each(t, func(t *testing.T, b *backend.Backend) {
		var mu sync.Mutex // guards the rest
		var owner string
		var holds, turns, joint int
		var highest uint64
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		enter := func(who string, fence uint64) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case holds > 0 && (owner != who || fence != highest):
				t.Errorf("%s has the fence %d beside %s with %d", who, fence, owner, highest)
			case holds > 0:
				joint++
			case fence < highest || fence == highest && who != owner:
				t.Errorf("%s has the fence %d after %d of %s", who, fence, highest, owner)
			default:
				turns++
			}
			owner, highest = who, fence
			holds++
			if turns >= 40 && joint > 0 || t.Failed() {
				cancel()
			}
		}
		leave := func() {
			mu.Lock()
			defer mu.Unlock()
			holds--
		}
		var wg sync.WaitGroup
		for i, who := range []string{"me", "you", "her"} {
			for j := range 2 {
				l := b.Client(t, nil).OwnerMutex("a", who)
				for k := range 2 {
					wg.Go(func() {
						dice := random(100*i + 10*j + k)
						for ctx.Err() == nil {
							lease, err := l.Acquire(ctx)
							if err != nil {
								continue
							}
							enter(who, lease.Fence())
							time.Sleep(upTo(2*time.Millisecond, dice))
							if dice.IntN(2) == 0 {
								if inner, err := l.TryAcquire(ctx); err == nil {
									enter(who, inner.Fence())
									leave()
									_ = inner.Release(ctx)
								} else if ctx.Err() == nil {
									t.Errorf("TryAcquire by the owner that has it: %v", err)
								}
							}
							leave()
							_ = lease.Release(ctx)
							time.Sleep(upTo(2*time.Millisecond, dice)) // lets others have their turn
						}
					})
				}
			}
		}
		wg.Wait()
		if turns < 40 || joint == 0 {
			t.Errorf("%d turns and %d joint leases", turns, joint)
		}
		b.Cleaned(t)
	})
}
