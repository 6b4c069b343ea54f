package behaviour

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// permits returns one permit of a semaphore with n, and manyPermits several, each with a client of its own.
func permits(t testing.TB, b *backend.Backend, n int, opts ...holdfast.SemaphoreOption) *holdfast.Lock {
	return manyPermits(t, b, n, 1, opts...)
}

func manyPermits(t testing.TB, b *backend.Backend, n, wanted int, opts ...holdfast.SemaphoreOption) *holdfast.Lock {
	return b.Client(t, nil).Semaphore("s", n).Permits(wanted, opts...)
}

func TestSemaphoreCountsItsPermits(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		s := permits(t, b, 3)
		one, two := backend.Acquire(t, s), backend.Acquire(t, permits(t, b, 3))
		wantHeld(t, manyPermits(t, b, 3, 2))
		three := backend.Acquire(t, s)
		if one.Fence() >= two.Fence() || two.Fence() >= three.Fence() {
			t.Errorf("fences %d, %d, %d do not rise", one.Fence(), two.Fence(), three.Fence())
		}
		wantHeld(t, s)
		all, err := backend.HoldersOf(t.Context(), s)
		if err != nil || len(all) != 3 || all[0].Permits != 1 || all[0].Mode != holdfast.ModePermits {
			t.Errorf("Holders: %+v, %v; want three", all, err)
		}
		backend.Release(t, two)
		four := backend.Acquire(t, permits(t, b, 3))
		wantHeld(t, s)
		for _, l := range []*holdfast.Lease{one, three, four} {
			backend.Release(t, l)
		}
		b.Cleaned(t)
	})
}

// Waiters for few permits do not overtake one for many.
func TestSemaphoreDoesNotStarveTheHeavy(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		one, two := backend.Acquire(t, permits(t, b, 3)), backend.Acquire(t, permits(t, b, 3))
		s := manyPermits(t, b, 3, 3)
		heavy := backend.Start(t, s)
		backend.Waiters(t, s, 1)
		light := backend.Start(t, permits(t, b, 3))
		backend.Waiters(t, s, 2)
		wantHeld(t, permits(t, b, 3)) // although a permit is free
		backend.Release(t, one)
		wantAsleep(t, "the heavy one", heavy)
		wantAsleep(t, "the light one behind it", light)
		backend.Release(t, two)
		got := backend.Receive(t, heavy)
		wantAsleep(t, "the light one", light)
		backend.Release(t, got)
		backend.Release(t, backend.Receive(t, light))
		b.Cleaned(t)
	})
}

func TestPermitsOfTheDeadComeBack(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		dead := backend.Acquire(t, manyPermits(t, b, 2, 2, holdfast.TTL(5*time.Second), holdfast.NoRenew()))
		first, second := backend.Start(t, permits(t, b, 2)), backend.Start(t, permits(t, b, 2))
		backend.Release(t, backend.Receive(t, first))
		backend.Release(t, backend.Receive(t, second))
		if err := dead.Err(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("the dead holder: %v; want ErrLost", err)
		}
		if err := dead.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Release by the dead holder: %v; want ErrLost", err)
		}
		b.Cleaned(t)
	})
}

func TestSemaphoresOfDifferentSize(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		three, five := permits(t, b, 3), permits(t, b, 5)
		lease := backend.Acquire(t, three)
		if _, err := five.TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("TryAcquire by a client that names 5: %v; want ErrMismatch", err)
		}
		if _, err := five.Acquire(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("Acquire by a client that names 5: %v; want ErrMismatch", err)
		}
		if err := lease.Extend(t.Context(), time.Minute); err != nil {
			t.Errorf("Extend: %v", err)
		}
		backend.Release(t, lease)
		backend.Release(t, backend.Acquire(t, five)) // nobody uses the three any more
		b.Cleaned(t)
	})
}

func TestResize(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		s := b.Client(t, nil).Semaphore("s", 2)
		one, two := backend.Acquire(t, s.Permits(1)), backend.Acquire(t, permits(t, b, 2))
		next := backend.Start(t, permits(t, b, 2))
		backend.Waiters(t, s.Permits(1), 1)
		resize := func(n int) {
			t.Helper()
			if err := s.Resize(t.Context(), n); err != nil {
				t.Fatalf("Resize to %d: %v", n, err)
			}
		}
		resize(3)
		three := backend.Receive(t, next)
		resize(1)
		for _, l := range []*holdfast.Lease{one, two, three} {
			if err := l.Err(); err != nil {
				t.Errorf("after a resize below what is held: %v", err)
			}
		}
		backend.Release(t, one)
		backend.Release(t, two)
		wantHeld(t, s.Permits(1))
		heavy := manyPermits(t, b, 2, 2)
		if _, err := heavy.Acquire(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("Acquire of 2 permits where there is 1: %v; want ErrMismatch", err)
		}
		backend.Release(t, three)
		if keys := b.Keys(t); len(keys) != 1 {
			t.Errorf("keys after a resize: %q; want what remembers it", keys)
		}
		only := backend.Acquire(t, permits(t, b, 7)) // numbers that clients name are ignored
		wantHeld(t, s.Permits(1))
		resize(0)
		backend.Release(t, only)
		backend.Release(t, backend.Acquire(t, permits(t, b, 7)))
		b.Cleaned(t)
		for _, n := range []int{-1, 1_000_001} {
			if err := s.Resize(t.Context(), n); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("Resize to %d: %v; want ErrInvalid", n, err)
			}
		}
	})
}

// Programs that name another number are deployed one by one, and at every moment somebody holds a permit. Once
// the new number is set, old and new programs are served; in the end it can be unset again.
func TestPermitsChangeInARollingDeploy(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		before, after := func() *holdfast.Lock { return permits(t, b, 3) }, func() *holdfast.Lock { return permits(t, b, 4) }
		s := b.Client(t, nil).Semaphore("s", 3)
		var held []*holdfast.Lease
		for range 3 {
			held = append(held, backend.Acquire(t, before()))
		}
		if _, err := after().TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("a client that names 4 before the number was set: %v; want ErrMismatch", err)
		}
		if err := s.Resize(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		held = append(held, backend.Acquire(t, after()))
		wantHeld(t, before())
		wantHeld(t, after())
		for i, lock := range []func() *holdfast.Lock{after, before, after, after} { // the old ones leave, and another one comes
			backend.Release(t, held[i])
			held[i] = backend.Acquire(t, lock())
		}
		backend.Release(t, held[1])
		held[1] = backend.Acquire(t, after())
		if err := s.Resize(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		backend.Release(t, held[0])
		held[0] = backend.Acquire(t, after())
		wantHeld(t, after())
		if _, err := before().TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("a client that still names 3: %v; want ErrMismatch", err)
		}
		for _, l := range held {
			backend.Release(t, l)
		}
		b.Cleaned(t)
	})
}

// Once the number is set on the server, the caller's own number is ignored, also as the limit of a single
// acquire.
func TestWeightIsComparedWithThePermitsThatThereAre(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		heavy := manyPermits(t, b, 2, 5)
		for what, f := range map[string]func(context.Context) (*holdfast.Lease, error){"Acquire": heavy.Acquire, "TryAcquire": heavy.TryAcquire} {
			if _, err := f(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
				t.Errorf("%s of 5 of 2 permits: %v; want ErrMismatch", what, err)
			}
		}
		s := b.Client(t, nil).Semaphore("s", 2)
		if err := s.Resize(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		one := backend.Acquire(t, heavy)
		two, err := heavy.TryAcquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantHeld(t, s.Permits(1))
		backend.Release(t, one)
		backend.Release(t, two)
		if err := s.Resize(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		b.Cleaned(t)
	})
}

// A waiter that wants more permits than there are after a resize is told so, and does not block those behind
// it.
func TestResizeBelowWhatAWaiterWants(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		s := b.Client(t, nil).Semaphore("s", 3)
		one := backend.Acquire(t, s.Permits(1))
		heavy := manyPermits(t, b, 3, 3, holdfast.TTL(5*time.Second))
		failed := make(chan error, 1)
		go func() {
			_, err := heavy.Acquire(t.Context())
			failed <- err
		}()
		backend.Waiters(t, s.Permits(1), 1)
		light := backend.Start(t, permits(t, b, 3))
		backend.Waiters(t, s.Permits(1), 2)
		if err := s.Resize(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		backend.Release(t, backend.Receive(t, light))
		backend.Release(t, one)
		if err := <-failed; !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("the heavy one: %v; want ErrMismatch", err)
		}
		if err := s.Resize(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		b.Cleaned(t)
	})
}

// The numbers that clients name count again at once, also for waiters, while others hold permits.
func TestResizeTo0WhilePermitsAreHeld(t *testing.T) {
	t.Parallel()
	backend.EachLong(t, func(t *testing.T, b *backend.Backend) {
		s := b.Client(t, nil).Semaphore("s", 2, holdfast.TTL(6*time.Second))
		one := backend.Acquire(t, s.Permits(1))
		if err := s.Resize(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		next := backend.Start(t, permits(t, b, 2))
		backend.Waiters(t, s.Permits(1), 1)
		if err := s.Resize(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		begun := one.Deadline()
		backend.Eventually(t, "the holder renews", func() bool { return one.Err() != nil || one.Deadline().After(begun) })
		two := backend.Receive(t, next)
		wantHeld(t, permits(t, b, 2))
		if _, err := permits(t, b, 3).TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("TryAcquire by a client that names 3: %v; want ErrMismatch", err)
		}
		backend.Release(t, one)
		backend.Release(t, two)
		b.Cleaned(t)
	})
}

// If one waiter wants too much, the others of its process do not fail.
func TestWaiterThatWantsTooMuchFailsAlone(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		s := c.Semaphore("s", 3)
		one := backend.Acquire(t, permits(t, b, 3))
		failed := make(chan error, 1)
		go func() {
			_, err := c.Semaphore("s", 3).Permits(3).Acquire(t.Context())
			failed <- err
		}()
		backend.Waiters(t, s.Permits(1), 1)
		light := backend.Start(t, s.Permits(1))
		wantAsleep(t, "the light one behind the heavy one", light)
		if err := s.Resize(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("the heavy one: %v; want ErrMismatch", err)
		}
		backend.Release(t, backend.Receive(t, light))
		backend.Release(t, one)
		if err := s.Resize(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		b.Cleaned(t)
	})
}

func TestSemaphoreInAStorm(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		const most = 5
		var held, grants atomic.Int64
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 3 {
			c := b.Client(t, nil)
			for j := range 5 {
				wg.Go(func() {
					dice := random(10*i + j)
					for ctx.Err() == nil {
						n := 1 + dice.IntN(most)
						lease, err := c.Semaphore("s", most).Permits(n).Acquire(ctx)
						if err != nil {
							continue
						}
						if grants.Add(1) == 300 {
							cancel()
						}
						if now := held.Add(int64(n)); now > most && lease.Err() == nil {
							t.Errorf("%d permits are held, of %d", now, most)
						}
						time.Sleep(upTo(2*time.Millisecond, dice))
						held.Add(int64(-n))
						_ = lease.Release(ctx)
					}
				})
			}
		}
		wg.Wait()
		if grants.Load() < 300 {
			t.Errorf("%d grants", grants.Load())
		}
		b.Cleaned(t)
	})
}
