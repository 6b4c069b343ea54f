package holdfast_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestAMutexHasOneHolder(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	here, there := s.client().Mutex("m"), s.client().Mutex("m")
	lease := acquire(t, here)
	if err := lease.Err(); err != nil {
		t.Errorf("Err of a lease that is held: %v", err)
	}
	wantHeld(t, here)
	_, err := there.TryAcquire(t.Context())
	var held *holdfast.HeldError
	if !errors.As(err, &held) || held.Name != "m" || held.Holder.PID != os.Getpid() || !isFenceOf(held.Holder.Fence, lease) {
		t.Errorf("the error does not say who holds the lock: %+v", err)
	}
	release(t, lease)
	again, err := there.TryAcquire(t.Context())
	if err != nil {
		t.Fatalf("TryAcquire of a free lock: %v", err)
	}
	if again.Fence() <= lease.Fence() {
		t.Errorf("fence %d follows %d", again.Fence(), lease.Fence())
	}
	release(t, again)
	s.cleaned()
}

func TestWaitersAreServedInOrder(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	lease := acquire(t, s.client().Mutex("m"))
	const processes = 4
	var waiting [processes]<-chan outcome[*holdfast.Lease]
	for i := range waiting {
		l := s.client().Mutex("m")
		waiting[i] = start(t, l.Acquire)
		awaitWaiters(t, l, i+1)
	}
	for i, next := range waiting {
		for _, later := range waiting[i:] {
			wantWaiting(t, "a waiter", later)
		}
		release(t, lease)
		after := succeeded(t, next)
		if after.Fence() <= lease.Fence() {
			t.Errorf("fence %d follows %d", after.Fence(), lease.Fence())
		}
		lease = after
	}
	release(t, lease)
	s.cleaned()
}

// Goroutines pass the lock on among themselves, each with a fence of its own.
func TestGoroutinesTakeTurns(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	l := s.client().Mutex("m")
	lease := acquire(t, l)
	const goroutines = 20
	turns := make(chan outcome[*holdfast.Lease], goroutines)
	for range goroutines {
		go func() {
			lease, err := l.Acquire(t.Context())
			turns <- outcome[*holdfast.Lease]{lease, err}
		}()
	}
	for range goroutines {
		wantWaiting(t, "a goroutine", turns)
		release(t, lease)
		after := succeeded(t, turns)
		if after.Fence() <= lease.Fence() {
			t.Fatalf("fence %d follows %d", after.Fence(), lease.Fence())
		}
		lease = after
	}
	release(t, lease)
	s.cleaned()
}

func TestTryAcquireDoesNotPassWaiters(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	lease := acquire(t, s.client().Mutex("m"))
	waiting := s.client().Mutex("m")
	next := start(t, waiting.Acquire)
	awaitWaiters(t, waiting, 1)
	s.give("m") // the lock is free, but somebody is queued for it
	wantHeld(t, s.client().Mutex("m"))
	_ = lease.Release(t.Context())
	release(t, succeeded(t, next))
}

// A poller asks again and again, has no place in the queue, and gets the lock once it is free.
func TestAPollerGetsTheLock(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
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
		"by option": s.tapped(count).Mutex("m", holdfast.Poll(time.Millisecond)),
		"by Config": s.tapped(count, polling).Mutex("m"),
	} {
		asked.Store(0)
		next := start(t, l.Acquire)
		eventually(t, "it asks again and again", func() bool { return asked.Load() > 5 })
		if n := len(status(t, l).Waiters); n != 0 {
			t.Errorf("a poller %s is queued: %d waiters", what, n)
		}
		release(t, lease)
		lease = succeeded(t, next)
	}
	l := s.client().Mutex("m", holdfast.Poll(time.Millisecond), holdfast.Wait(10*time.Millisecond))
	err := answered(t, func() error { _, err := l.Acquire(soon(t)); return err })
	want(t, "Acquire of a poller whose time is up", err, holdfast.ErrHeld)
	release(t, lease)
	s.cleaned()
}

// MutexKey shares the lock with programs that use SET NX on the key itself.
func TestMutexKeyIsSharedWithOtherPrograms(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	key := s.prefix + "key"
	l := s.client().MutexKey(key)
	lease := acquire(t, l)
	if reply := s.do("SET", key, "theirs", "NX", "PX", "60000"); reply != "" {
		t.Errorf("another program takes a lock that is held: %q", reply)
	}
	release(t, lease)
	if reply := s.do("SET", key, "theirs", "NX", "PX", "60000"); reply != "OK" {
		t.Fatalf("another program cannot take a free lock: %q", reply)
	}
	_, err := l.TryAcquire(t.Context())
	var held *holdfast.HeldError
	if !errors.As(err, &held) || !held.Holder.Foreign || held.Holder.TTL <= 0 {
		t.Errorf("TryAcquire of another program's lock: %+v", err)
	}
	if h, is := status(t, l).Holder(); !is || !h.Foreign {
		t.Errorf("Status of another program's lock: %+v", h)
	}
	s.do("PERSIST", key)
	if h, is := status(t, l).Holder(); !is || h.TTL != holdfast.NoExpiry {
		t.Errorf("Status of a lock that never expires: %+v", h)
	}
	next := start(t, l.Acquire)
	wantWaiting(t, "a waiter for another program's lock", next)
	s.do("DEL", key)
	release(t, succeeded(t, next))
	want(t, "a key with a brace that is no hash tag's", tryAcquire(t, s.client().MutexKey("a}b")), holdfast.ErrInvalid)
}

// RedissonMutex keeps the lock as Redisson does: a hash.
func TestRedissonMutexIsAHash(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	key := s.prefix + "lock"
	l := s.client().RedissonMutex(key)
	lease := acquire(t, l)
	if kind, n := s.do("TYPE", key), s.do("HLEN", key); kind != "hash" || n == "0" {
		t.Errorf("the lock is a %s of %s fields", kind, n)
	}
	wantHeld(t, s.client().RedissonMutex(key))
	other := s.client().RedissonMutex(key)
	next := start(t, other.Acquire)
	awaitWaiters(t, l, 1)
	release(t, lease)
	release(t, succeeded(t, next))
	s.do("HSET", key, "b7a1c8e0-3f5a-4a44-8b90-1d3f6f0b7c11:1", "1")
	if h, is := status(t, l).Holder(); !is || !h.Foreign {
		t.Errorf("Status of Redisson's own lock: %+v", h)
	}
	channel := "redisson_lock__channel:{" + key + "}"
	next = start(t, l.Acquire)
	eventually(t, "the waiter listens as Redisson's do", func() bool { return s.do("PUBSUB", "NUMSUB", channel) == channel+"\n1" })
	wantWaiting(t, "a waiter for Redisson's lock", next)
	s.do("DEL", key)
	s.do("PUBLISH", channel, "0") // as Redisson's unlock does
	release(t, succeeded(t, next))
}

func tryAcquire(t *testing.T, l *holdfast.Lock) error {
	t.Helper()
	lease, err := l.TryAcquire(soon(t))
	if err == nil {
		release(t, lease)
	}
	return err
}

// An owner acquires its lock again from any process. The lock is free after the last release.
func TestAnOwnerSpansProcesses(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	here, there, other := s.client().OwnerMutex("m", "me"), s.client().OwnerMutex("m", "me"), s.client().OwnerMutex("m", "you")
	one := acquire(t, here)
	next := start(t, other.Acquire)
	awaitWaiters(t, here, 1)
	two := acquire(t, there) // past the waiter
	if one.Fence() != two.Fence() || two.Owner() != "me" {
		t.Errorf("the leases of %s have the fences %d and %d", two.Owner(), one.Fence(), two.Fence())
	}
	wantHeld(t, other)
	release(t, one)
	wantWaiting(t, "another owner", next)
	release(t, two)
	release(t, succeeded(t, next))
	s.cleaned()
}

func TestReleaseOwner(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	c := s.client()
	releaseOwner := func(owner string) (int, error) { return c.ReleaseOwner(t.Context(), "m", owner) }
	_, err := releaseOwner("me")
	want(t, "ReleaseOwner of a free lock", err, holdfast.ErrNotHeld)
	one, two := acquire(t, s.client().OwnerMutex("m", "me")), acquire(t, s.client().OwnerMutex("m", "me"))

	_, err = releaseOwner("you")
	want(t, "ReleaseOwner of another's lock", err, holdfast.ErrNotOwner)
	var held *holdfast.HeldError
	if !errors.As(err, &held) || held.Holder.Owner != "me" {
		t.Errorf("ReleaseOwner of another's lock does not say whose it is: %v", err)
	}
	for left := 1; left >= 0; left-- {
		if got, err := releaseOwner("me"); got != left || err != nil {
			t.Errorf("ReleaseOwner: %d left, %v; want %d", got, err, left)
		}
	}
	for _, lease := range []*holdfast.Lease{one, two} {
		want(t, "Extend after ReleaseOwner", lease.Extend(t.Context(), time.Minute), holdfast.ErrLost)
		want(t, "Release after ReleaseOwner", lease.Release(t.Context()), holdfast.ErrLost)
	}
	_, err = releaseOwner("")
	want(t, "ReleaseOwner of nobody", err, holdfast.ErrInvalid)
}

func TestMaxDepthBoundsAnOwnersLeases(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	l := s.client().OwnerMutex("m", "me", holdfast.MaxDepth(2))
	one, two := acquire(t, l), acquire(t, s.client().OwnerMutex("m", "me", holdfast.MaxDepth(2)))
	_, err := l.Acquire(t.Context())
	want(t, "a third lease of two", err, holdfast.ErrDepth)
	want(t, "a third lease of two", tryAcquire(t, l), holdfast.ErrDepth)
	release(t, two)
	release(t, acquire(t, l), one)
	s.cleaned()
}

// An OwnerMutex refuses the option Owner.
func TestOwnerMutexRefusesTheOptionOwner(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	want(t, "Owner", tryAcquire(t, s.client().OwnerMutex("m", "me", holdfast.Owner("you"))), holdfast.ErrInvalid)
}
