package behaviour

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// An acquire under a lease's context joins the lease without the server; under another owner's lease it is
// refused, since it would wait for that.
func TestOwnersContext(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
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
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
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
