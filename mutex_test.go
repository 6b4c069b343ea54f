package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A poller asks again and again, has no place in the queue, and gets the lock once it is free.
func TestAPollerGetsTheLock(t *testing.T) {
	s := inParallel(t)
	var asked atomic.Int32
	count := func(ctx context.Context, call driver.Call, next redistest.Run) (string, error) {
		if strings.Contains(call.Script.Name, "acquire") {
			asked.Add(1)
		}
		return next(ctx, call)
	}
	polling := func(cfg *holdfast.Config) { cfg.PollInterval = time.Millisecond }
	lease := acquire(t, s.client().Mutex("m"))
	for what, l := range map[string]*holdfast.Lock{
		"by option":  s.tapped(count).Mutex("m", holdfast.Poll(time.Millisecond)),
		"by Config":  s.tapped(count, polling).Mutex("m"),
		"of several": s.tapped(count).Multi([]string{"a", "m"}, holdfast.Poll(time.Millisecond)),
	} {
		asked.Store(0)
		next := start(t, l.Acquire)
		eventually(t, "it asks again and again", func() bool { return asked.Load() > 5 })
		equal(t, "pollers that are queued, "+what, len(status(t, l).Waiters), 0)
		release(t, lease)
		lease = succeeded(t, next)
	}
	l := s.client().Mutex("m", holdfast.Poll(time.Millisecond), holdfast.Wait(10*time.Millisecond))
	err := answered(t, func() error { _, err := l.Acquire(soon(t)); return err })
	want(t, "Acquire of a poller whose time is up", err, holdfast.ErrHeld)
	release(t, lease)
	s.cleaned()
}

func tryAcquire(t *testing.T, l *holdfast.Lock) error {
	t.Helper()
	lease, err := l.TryAcquire(soon(t))
	if err == nil {
		release(t, lease)
	}
	return err
}

func TestReleaseOwner(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	releaseOwner := func(owner string) (int, error) { return c.ReleaseOwner(t.Context(), "m", owner) }
	_, err := releaseOwner("me")
	want(t, "ReleaseOwner of a free lock", err, holdfast.ErrNotHeld)
	one, two := acquire(t, s.client().OwnerMutex("m", "me")), acquire(t, s.client().OwnerMutex("m", "me"))

	_, err = releaseOwner("you")
	want(t, "ReleaseOwner of another's lock", err, holdfast.ErrNotOwner)
	heldBy(t, "ReleaseOwner of another's lock", err, "m", "me", nil)
	next := start(t, s.client().OwnerMutex("m", "you").Acquire)
	awaitWaiters(t, s.client().OwnerMutex("m", "you"), 1)
	for left := 1; left >= 0; left-- {
		wantWaiting(t, "another owner", next)
		if got, err := releaseOwner("me"); got != left || err != nil {
			t.Errorf("ReleaseOwner: %d left, %v; want %d", got, err, left)
		}
	}
	last := succeeded(t, next)
	_, err = releaseOwner("me")
	want(t, "ReleaseOwner of a lock that another has now", err, holdfast.ErrNotOwner)
	for _, lease := range []*holdfast.Lease{one, two} {
		want(t, "Extend after ReleaseOwner", lease.Extend(t.Context(), time.Minute), holdfast.ErrLost)
		want(t, "Release after ReleaseOwner", lease.Release(t.Context()), holdfast.ErrLost)
	}
	release(t, last)
	for _, owner := range []string{"", "m\ne"} {
		_, err = releaseOwner(owner)
		want(t, "ReleaseOwner of a bad name", err, holdfast.ErrInvalid)
	}
}

func TestMaxDepthBoundsAnOwnersLeases(t *testing.T) {
	s := inParallel(t)
	l := s.client().OwnerMutex("m", "me", holdfast.MaxDepth(2))
	one, two := acquire(t, l), acquire(t, s.client().OwnerMutex("m", "me", holdfast.MaxDepth(2)))
	_, err := l.Acquire(t.Context())
	want(t, "a third lease of two", err, holdfast.ErrDepth)
	want(t, "a third lease of two", tryAcquire(t, l), holdfast.ErrDepth)
	release(t, two)
	release(t, acquire(t, l), one)
	s.cleaned()
}

func TestDowngradeLeavesNoGap(t *testing.T) {
	s := inParallel(t)
	rw, other := s.client().RWMutex("rw"), s.client().RWMutex("rw")
	writing := acquire(t, rw.Writer())
	reader := start(t, s.client().RWMutex("rw").Reader().Acquire)
	awaitWaiters(t, rw, 1)
	writer := start(t, other.Writer().Acquire)
	awaitWaiters(t, rw, 2)

	reading, err := rw.Downgrade(t.Context(), writing)
	must(t, err)
	if reading.Fence() != writing.Fence() || !reading.IsShared() {
		t.Errorf("the fence was %d and is %d; shared: %t", writing.Fence(), reading.Fence(), reading.IsShared())
	}
	want(t, "the writer's lease", writing.Err(), holdfast.ErrReleased)
	second := succeeded(t, reader) // a reader that waits goes in
	release(t, writing)            // changes nothing
	release(t, second)
	wantWaiting(t, "another writer", writer)
	want(t, "Extend after Downgrade", reading.Extend(t.Context(), time.Minute), nil)
	release(t, reading)
	release(t, succeeded(t, writer))
	s.cleaned()
}

func TestTryUpgrade(t *testing.T) {
	s := inParallel(t)
	rw := s.client().RWMutex("rw")
	reading, other := acquire(t, rw.Reader()), acquire(t, s.client().RWMutex("rw").Reader())
	if !reading.IsShared() || other.Fence() != reading.Fence() {
		t.Errorf("readers at the same time have the fences %d and %d; shared: %t", reading.Fence(), other.Fence(), reading.IsShared())
	}
	_, err := rw.TryUpgrade(t.Context(), reading)
	want(t, "TryUpgrade beside another reader", err, holdfast.ErrHeld)
	var held *holdfast.HeldError
	if !errors.As(err, &held) || held.Name != "rw" || !held.Holder.IsZero() {
		t.Errorf("TryUpgrade beside another reader: %#v", err)
	}
	want(t, "the reader's lease after it was refused", reading.Err(), nil)
	release(t, other)
	writing, err := rw.TryUpgrade(t.Context(), reading)
	must(t, err)
	if writing.Fence() <= reading.Fence() || writing.IsShared() {
		t.Errorf("the writer's fence %d follows %d; shared: %t", writing.Fence(), reading.Fence(), writing.IsShared())
	}
	want(t, "the reader's lease", reading.Err(), holdfast.ErrReleased)
	wantHeld(t, s.client().RWMutex("rw").Reader())
	want(t, "Extend after TryUpgrade", writing.Extend(t.Context(), time.Minute), nil)
	_, err = rw.TryUpgrade(t.Context(), reading)
	want(t, "TryUpgrade of a lease that is over", err, holdfast.ErrReleased)
	release(t, writing)
	s.cleaned()
}

// Downgrade and TryUpgrade refuse leases of the wrong side or of another lock, and change nothing then.
func TestChangesOfSideRefuseOtherLeases(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	rw := c.RWMutex("rw")
	for what, l := range map[string]*holdfast.Lock{
		"a mutex":           c.Mutex("m"),
		"another RWMutex":   c.RWMutex("other").Writer(),
		"several locks":     c.Multi([]string{"a", "b"}),
		"the wrong options": c.RWMutex("rw").Writer(),
	} {
		lease := acquire(t, l)
		to := rw
		if what == "the wrong options" {
			to = c.RWMutex("rw", holdfast.TTL(0))
		}
		_, err := to.Downgrade(t.Context(), lease)
		want(t, "Downgrade with "+what, err, holdfast.ErrInvalid)
		_, err = to.TryUpgrade(t.Context(), lease)
		if what != "the wrong options" {
			want(t, "TryUpgrade with "+what, err, holdfast.ErrInvalid)
		}
		want(t, "the lease of "+what, lease.Err(), nil)
		release(t, lease)
	}
	s.cleaned()
}

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
