package behaviour

import (
	"context"
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

func TestPermitsOfTheDeadComeBack(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		dead := backend.Acquire(t, manyPermits(t, b, 2, 2, holdfast.TTL(5*time.Second), holdfast.NoRenew()))
		first, second := backend.Start(t, permits(t, b, 2)), backend.Start(t, permits(t, b, 2))
		backend.Release(t, backend.Receive(t, first))
		backend.Release(t, backend.Receive(t, second))
		wantErr(t, "the dead holder", dead.Err(), holdfast.ErrLost)
		wantErr(t, "Release by the dead holder", dead.Release(t.Context()), holdfast.ErrLost)
		b.Cleaned(t)
	})
}

// A waiter that wants more permits than there are after a resize is told so, and does not block those behind it, be they of
// another process or of its own.
func TestResizeBelowWhatAWaiterWants(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		s := c.Semaphore("s", 3)
		for behind, light := range map[string]*holdfast.Lock{"of another process": permits(t, b, 3), "of its own process": s.Permits(1)} {
			one := backend.Acquire(t, permits(t, b, 3))
			failed := make(chan error, 1)
			go func() {
				_, err := c.Semaphore("s", 3).Permits(3, holdfast.TTL(5*time.Second)).Acquire(t.Context())
				failed <- err
			}()
			backend.Waiters(t, s.Permits(1), 1)
			next := backend.Start(t, light)
			if behind == "of another process" {
				backend.Waiters(t, s.Permits(1), 2)
			}
			wantAsleep(t, "the light one behind the heavy one", next)
			must(t, s.Resize(t.Context(), 2))
			backend.Release(t, backend.Receive(t, next))
			backend.Release(t, one)
			wantErr(t, "the heavy one, before one "+behind, <-failed, holdfast.ErrMismatch)
			must(t, s.Resize(t.Context(), 0))
			b.Cleaned(t)
		}
	})
}

// The numbers that clients name count again at once, also for waiters, while others hold permits.
func TestResizeTo0WhilePermitsAreHeld(t *testing.T) {
	t.Parallel()
	backend.EachLong(t, func(t *testing.T, b *backend.Backend) {
		s := b.Client(t, nil).Semaphore("s", 2, holdfast.TTL(6*time.Second))
		one := backend.Acquire(t, s.Permits(1))
		must(t, s.Resize(t.Context(), 1))
		next := backend.Start(t, permits(t, b, 2))
		backend.Waiters(t, s.Permits(1), 1)
		must(t, s.Resize(t.Context(), 0))
		begun := one.Deadline()
		backend.Eventually(t, "the holder renews", func() bool { return one.Err() != nil || one.Deadline().After(begun) })
		two := backend.Receive(t, next)
		wantHeld(t, permits(t, b, 2))
		wantErr(t, "TryAcquire by a client that names 3", errOf(permits(t, b, 3).TryAcquire(t.Context())), holdfast.ErrMismatch)
		backend.Release(t, one)
		backend.Release(t, two)
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
