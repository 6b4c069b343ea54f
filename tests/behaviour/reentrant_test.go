package behaviour

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// reentrant returns a lock with a client of its own.
func reentrant(t testing.TB, b *backend.Backend, opts ...holdfast.MutexOption) *holdfast.Lock {
	return b.Client(t, nil).Mutex("a", append(opts, holdfast.Reentrant())...)
}

// again acquires a lock within a lease of it.
func again(t testing.TB, l *holdfast.Lock, within *holdfast.Lease) *holdfast.Lease {
	t.Helper()
	lease := expect.Of(l.Acquire(within.Context(context.Background()))).OK(t)
	expect.Equal(t, "the fence within", lease.Fence(), within.Fence())
	return lease
}

// A lock that was acquired again is held until all its leases are released, in any order.
//
// Bug: A re-entry is not counted, or never freed.
func TestReentrantIsHeldUntilTheLastRelease(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l, other := reentrant(t, b, holdfast.MaxDepth(3)), reentrant(t, b)
		for _, order := range [][]int{{2, 1, 0}, {0, 1, 2}, {1, 2, 0}} {
			first := backend.Acquire(t, l)
			second := again(t, l, first)
			third := again(t, l, second)
			leases := []*holdfast.Lease{first, second, third}
			expect.Err(t, "a fourth lease of three", expect.ErrOf(l.Acquire(third.Context(context.Background()))), holdfast.ErrDepth)
			next := backend.Start(t, other)
			backend.Waiters(t, other, 1)
			for n, i := range order {
				lease := leases[i]
				ctx := lease.Context(context.Background())
				wantAsleep(t, "another", next)
				backend.Release(t, lease)
				if cause := context.Cause(ctx); !errors.Is(cause, holdfast.ErrReleased) || !errors.Is(lease.Err(), holdfast.ErrReleased) {
					t.Errorf("a lease that was released says %v, its context %v", lease.Err(), cause)
				}
				for _, j := range order[n+1:] {
					expect.Err(t, "a lease that was not released", leases[j].Err(), nil)
				}
				backend.Release(t, lease) // counts once
			}
			last := backend.Receive(t, next)
			expect.Rises(t, first.Fence(), last.Fence())
			backend.Release(t, last)
		}
		b.Cleaned(t)
	})
}

// Acquiring again sends nothing to the server.
func TestReentrantCostsNoRoundTrip(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		settled(t, b, c)
		l := c.Mutex("a", holdfast.Reentrant(), holdfast.TTL(time.Hour), holdfast.NoRenew())
		first := backend.Acquire(t, l)
		before := asked(b.Server)
		for range 100 {
			lease := again(t, l, first)
			tried := expect.Of(l.TryAcquire(lease.Context(context.Background()))).OK(t)
			backend.Release(t, tried)
			backend.Release(t, lease)
		}
		expect.AtMost(t, "scripts that the server ran", asked(b.Server)-before, 0)
		backend.Release(t, first)
	})
}

// Only the context makes a caller a holder: not the process, the client or the name; and only with the option.
func TestReentrantNeedsTheHoldersContext(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		l := c.Mutex("a", holdfast.Reentrant())
		lease := backend.Acquire(t, l)
		wantHeld(t, l)
		expect.Err(t, "another client's", expect.ErrOf(reentrant(t, b).TryAcquire(lease.Context(context.Background()))), holdfast.ErrHeld)
		expect.Err(t, "one without", expect.ErrOf(c.Mutex("a").TryAcquire(lease.Context(context.Background()))), holdfast.ErrDeadlock)
		elsewhere := expect.Of(c.Mutex("b", holdfast.Reentrant()).TryAcquire(lease.Context(context.Background()))).OK(t)
		inner, err := l.TryAcquire(elsewhere.Context(lease.Context(context.Background()))) // contexts add up
		if err != nil || inner.Fence() != lease.Fence() {
			t.Fatalf("within two locks: %v, %v", inner, err)
		}
		backend.Release(t, inner)
		backend.Release(t, elsewhere)
		old := context.WithoutCancel(lease.Context(context.Background()))
		backend.Release(t, lease)

		next, err := l.TryAcquire(old)
		if err != nil || next.Fence() <= lease.Fence() {
			t.Fatalf("after the release: %v, %v; want a new lease", next, err)
		}
		expect.Err(t, "with the released lease's context", expect.ErrOf(l.TryAcquire(lease.Context(context.Background()))), context.Canceled)
		backend.Release(t, next)
		b.Cleaned(t)
	})
}

// A reader can acquire again past a waiting writer: otherwise it would wait for itself.
func TestReentrantReadersAndWriters(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		rw := b.Client(t, nil).RWMutex("a", holdfast.Reentrant())
		other := b.Client(t, nil).RWMutex("a").Writer()
		reader := backend.Acquire(t, rw.Reader())
		next := backend.Start(t, other)
		backend.Waiters(t, other, 1)
		inner := again(t, rw.Reader(), reader)
		expect.Err(t, "a reader that wants to write", expect.ErrOf(rw.Writer().Acquire(inner.Context(context.Background()))), holdfast.ErrDeadlock)
		expect.Err(t, "TryUpgrade of a lease that is not the only one", expect.ErrOf(rw.TryUpgrade(t.Context(), inner)), holdfast.ErrHeld)
		backend.Release(t, reader)
		wantAsleep(t, "the writer", next)
		backend.Release(t, inner)
		backend.Release(t, backend.Receive(t, next))

		writer := backend.Acquire(t, rw.Writer())
		reading := again(t, rw.Reader(), writer)
		writing := again(t, rw.Writer(), reading)
		if _, err := rw.Downgrade(t.Context(), writer); !errors.Is(err, holdfast.ErrInvalid) || writer.Err() != nil {
			t.Errorf("Downgrade with leases within: %v; the lease: %v", err, writer.Err())
		}
		wantHeld(t, b.Client(t, nil).RWMutex("a").Reader())
		backend.Release(t, writing)
		backend.Release(t, reading)
		down := expect.Of(rw.Downgrade(t.Context(), writer)).OK(t)
		inner = again(t, rw.Reader(), down)
		backend.Release(t, down)
		backend.Release(t, inner)
		b.Cleaned(t)
	})
}

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

// The owner that has the lock acquires it again past other owners that wait for it: from another process, and from the process
// in which they wait, which has a wait queue for each owner.
func TestOwnersDoNotWaitBehindEachOther(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		mine := c.OwnerMutex("a", "me")
		yours := c.OwnerMutex("a", "you")
		lease := backend.Acquire(t, mine)
		first := queue(t, yours, 1)
		second := backend.Start(t, yours) // in this process's wait queue
		inner, elsewhere := backend.Acquire(t, mine), backend.Acquire(t, b.Client(t, nil).OwnerMutex("a", "me"))
		expect.Equal(t, "the fence of the owner's lease in another process", elsewhere.Fence(), lease.Fence())
		backend.Release(t, elsewhere)
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
