package holdfast_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestMultiIsAllOrNothing(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	names := []string{"c", "a", "b"}
	all := s.client().Multi(names)
	for _, name := range names {
		taken := acquire(t, c.Mutex(name))
		_, err := all.TryAcquire(t.Context())
		heldBy(t, "TryAcquire", err, name, "", taken)
		bounded := s.client().Multi(names, holdfast.Wait(10*time.Millisecond))
		err = answered(t, func() error { _, err := bounded.Acquire(t.Context()); return err })
		heldBy(t, "Acquire", err, name, "", nil)
		for _, other := range names {
			if other != name {
				release(t, acquire(t, c.Mutex(other)))
			}
		}
		release(t, taken)
	}
	lease, err := all.TryAcquire(t.Context())
	must(t, err)
	for _, name := range names {
		wantHeld(t, c.Mutex(name))
	}
	fences := lease.Fences()
	if len(fences) != 3 || lease.Fence() != max(fences["a"], fences["b"], fences["c"]) || lease.IsShared() {
		t.Errorf("the fences are %v, the highest is %d", fences, lease.Fence())
	}
	before := lease.Deadline()
	want(t, "Extend", lease.Extend(t.Context(), time.Hour), nil)
	if got := lease.Deadline(); got.Sub(before) < 30*time.Minute {
		t.Errorf("the deadline was %s and is %s", before, got)
	}
	want(t, "Extend by nothing", lease.Extend(t.Context(), 0), holdfast.ErrInvalid)
	release(t, lease, lease)
	want(t, "Err", lease.Err(), holdfast.ErrReleased)
	want(t, "Extend after Release", lease.Extend(t.Context(), time.Hour), holdfast.ErrReleased)
	s.cleaned()
}

// A Multi waits for each lock in that lock's queue, while it holds the earlier ones.
func TestMultiWaitsInTheQueues(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	a, b := acquire(t, c.Mutex("a")), acquire(t, c.Mutex("b"))
	next := start(t, s.client().Multi([]string{"b", "a"}).Acquire)
	awaitWaiters(t, c.Mutex("a"), 1)
	behind := start(t, s.client().Mutex("a").Acquire)
	awaitWaiters(t, c.Mutex("a"), 2)
	release(t, a)
	awaitWaiters(t, c.Mutex("b"), 1)
	wantWaiting(t, "the one behind", behind)
	release(t, b)
	release(t, succeeded(t, next))
	release(t, succeeded(t, behind))
	s.cleaned()
}

// Fault: The context ends while several locks are acquired. Those acquired so far are released.
func TestMultiGivesUpWithItsContext(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	b := acquire(t, c.Mutex("b"))
	ctx, cancel := context.WithCancel(t.Context())
	l := s.client().Multi([]string{"a", "b"})
	waiting := start(t, func(context.Context) (*holdfast.Lease, error) { return l.Acquire(ctx) })
	awaitWaiters(t, c.Mutex("b"), 1)
	wantHeld(t, c.Mutex("a"))
	cancel()
	equal(t, "Acquire", receive(t, waiting).err, context.Canceled)
	awaitRelease(t, c.Mutex("a"))
	release(t, b)
	s.cleaned()
}

func TestMultiIsReentrant(t *testing.T) {
	s := inParallel(t)
	l := s.client().Multi([]string{"a", "b"}, holdfast.Reentrant())
	err := l.Do(t.Context(), func(ctx context.Context, outer *holdfast.Lease) error {
		return l.TryDo(ctx, func(_ context.Context, inner *holdfast.Lease) error {
			if inner.Fence() != outer.Fence() || inner.Name() != "a, b" {
				t.Errorf("the fences are %d and %d", outer.Fence(), inner.Fence())
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	s.cleaned()
}
