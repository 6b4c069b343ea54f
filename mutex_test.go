package holdfast_test

import (
	"context"
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
