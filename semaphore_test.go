package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Programs that disagree about the number of permits get ErrMismatch.
func TestSemaphoresOfDifferentSizes(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	lease := acquire(t, c.Semaphore("s", 3).Permits(1))
	want(t, "another number while a permit is held", tryAcquire(t, c.Semaphore("s", 4).Permits(1)), holdfast.ErrMismatch)
	_, err := c.Semaphore("s", 4).Permits(1).Acquire(t.Context())
	want(t, "another number while a permit is held", err, holdfast.ErrMismatch)
	want(t, "Extend after that", lease.Extend(t.Context(), time.Minute), nil)
	release(t, lease)
	release(t, acquire(t, c.Semaphore("s", 4).Permits(1)))
	want(t, "more permits than there are", tryAcquire(t, c.Semaphore("s", 4).Permits(5)), holdfast.ErrMismatch)
	s.cleaned()
}

func TestResize(t *testing.T) {
	s := inParallel(t)
	sem := s.client().Semaphore("s", 2)
	resize := func(n int) {
		t.Helper()
		must(t, sem.Resize(t.Context(), n))
	}
	one, two := acquire(t, sem.Permits(1)), acquire(t, s.client().Semaphore("s", 2).Permits(1))
	next := start(t, s.client().Semaphore("s", 2).Permits(1).Acquire)
	awaitWaiters(t, sem, 1)
	resize(3)
	three := succeeded(t, next)

	resize(1) // nobody loses a permit, and none is granted until enough have come back
	for _, lease := range []*holdfast.Lease{one, two, three} {
		want(t, "a lease after a Resize below what is held", lease.Err(), nil)
	}
	release(t, one, two)
	wantHeld(t, sem.Permits(1))
	_, err := sem.Permits(2).Acquire(t.Context())
	want(t, "more permits than there are now", err, holdfast.ErrMismatch)
	release(t, three)
	lease := acquire(t, s.client().Semaphore("s", 9).Permits(1)) // what clients say does not matter
	wantHeld(t, sem.Permits(1))
	release(t, lease)

	resize(10)
	release(t, acquire(t, s.client().Semaphore("s", 2).Permits(5)), acquire(t, sem.Permits(5)))
	resize(0) // what they say matters again
	lease = acquire(t, s.client().Semaphore("s", 9).Permits(9))
	want(t, "the former number", tryAcquire(t, sem.Permits(1)), holdfast.ErrMismatch)
	release(t, lease)
	for _, n := range []int{-1, 1_000_001} {
		want(t, "Resize out of bounds", sem.Resize(t.Context(), n), holdfast.ErrInvalid)
	}
	s.cleaned()
}

// A server that lets nobody in because others are queued names no holder.
func TestHeldByNobody(t *testing.T) {
	s := inParallel(t)
	c := s.tapped(func(ctx context.Context, call driver.Call, next redistest.Run) (string, error) {
		reply, err := next(ctx, call)
		if call.Script.Name != "share_acquire" || err != nil {
			return reply, err
		}
		return "held " + strings.Fields(reply)[1] + " 0 1 hf2:-:0:0:0:", nil
	})
	_, err := c.Semaphore("s", 2).Permits(1).TryAcquire(t.Context())
	var held *holdfast.HeldError
	if !errors.As(err, &held) || !held.Holder.IsZero() {
		t.Errorf("TryAcquire: %#v", err)
	}
}
