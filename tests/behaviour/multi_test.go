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
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

func TestMultiFreeCostsOneRoundTrip(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		all := c.Multi([]string{"a", "b", "c"})
		backend.Release(t, backend.Acquire(t, all))
		settled(t, b, c)
		before := asked(b.Server)
		lease := backend.Acquire(t, all)
		expect.Equal(t, "scripts for three free locks", asked(b.Server)-before, 1)
		backend.Release(t, lease)
	})
}

// Callers that name the locks in any order, several together and single ones, never wait for each other in a
// circle, and never hold the same lock.
func TestMultiNeverDeadlocks(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		names := []string{"a", "b", "c", "d", "e"}
		var holders [5]atomic.Int32
		var last [5]atomic.Uint64
		var wg sync.WaitGroup
		for i := range 4 {
			c := b.Client(t, nil)
			for j := range 3 {
				wg.Go(func() {
					dice := random(10*i + j)
					for range 15 {
						order := dice.Perm(len(names))[:1+dice.IntN(4)]
						var chosen []string
						for _, i := range order {
							chosen = append(chosen, names[i])
						}
						l := c.Mutex(chosen[0])
						if len(chosen) > 1 {
							l = c.Multi(chosen)
						}
						lease, err := l.Acquire(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						tokens := lease.Fences()
						for _, i := range order {
							expect.Equal(t, "holders of "+names[i], holders[i].Add(1), 1)
							expect.Rises(t, last[i].Swap(tokens[names[i]]), tokens[names[i]])
						}
						time.Sleep(time.Duration(dice.IntN(2)) * time.Millisecond)
						for _, i := range order {
							holders[i].Add(-1)
						}
						noError(t, lease.Release(t.Context()))
					}
				})
			}
		}
		wg.Wait()
		b.Cleaned(t)
	})
}

// A lock that is lost while others are waited for is acquired again.
func TestMultiLosesOneWhileItWaits(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		one := b.Client(t, nil)
		taken := backend.Acquire(t, one.Mutex("b"))
		leases := backend.Start(t, b.Client(t, nil).Multi([]string{"a", "b"}, holdfast.TTL(6*time.Second)))
		backend.Waiters(t, one.Mutex("b"), 1)
		b.Redis(t).Del(t.Context(), "holdfast:{a}")
		usurper := backend.Acquire(t, one.Mutex("a"))
		backend.Waiters(t, one.Mutex("a"), 1)
		backend.Release(t, taken)
		wantAsleep(t, "both", leases)
		backend.Release(t, usurper)
		lease := backend.Receive(t, leases)
		noError(t, lease.Err())
		wantHeld(t, one.Mutex("a"))
		wantHeld(t, one.Mutex("b"))
		backend.Release(t, lease)
		b.Cleaned(t)
	})
}

// Fault: One lock of several is lost. The lease is lost; the others stay held until they expire or the lease is released.
func TestMultiIsLostWithOne(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		one := b.Client(t, nil)
		for _, release := range []bool{true, false} {
			ttl := 5 * time.Second
			if release {
				ttl = time.Minute
			}
			lease := backend.Acquire(t, b.Client(t, nil).Multi([]string{"a", "b", "c"}, holdfast.TTL(ttl)))
			b.Redis(t).Set(t.Context(), "holdfast:{b}", "theirs", time.Minute)
			expect.Err(t, "Extend of what is lost", lease.Extend(t.Context(), ttl), holdfast.ErrLost)
			<-lease.Done()
			var lost *holdfast.LostError
			if cause := context.Cause(lease.Context(context.Background())); !errors.As(cause, &lost) || lost.Name != "b" || lost.Reason != holdfast.LossTaken ||
				lost.Fence != lease.Fences()["b"] {
				t.Errorf("the context ends with %v", cause)
			}
			expect.Err(t, "Err", lease.Err(), holdfast.ErrLost)
			if release {
				wantHeld(t, one.Mutex("a"))
				expect.Err(t, "Release of what is lost", lease.Release(t.Context()), holdfast.ErrLost)
			}
			b.Redis(t).Del(t.Context(), "holdfast:{b}")
			backend.Release(t, backend.Acquire(t, one.Mutex("a")))
			backend.Release(t, backend.Acquire(t, one.Mutex("c")))
		}
		b.Cleaned(t)
	})
}

// If a lock is acquired again as one of several, its first lease outlives the loss of the several. Once the
// first lease is released, nothing is renewed any more.
func TestMultiIsLostWithinAnotherLease(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		lose := func(ttl time.Duration) (outer, inner *holdfast.Lease) {
			t.Helper()
			outer = backend.Acquire(t, c.Mutex("a", holdfast.Reentrant(), holdfast.TTL(ttl)))
			inner, err := c.Multi([]string{"a", "b"}, holdfast.Reentrant(), holdfast.TTL(ttl)).Acquire(outer.Context(context.Background()))
			expect.OK(t, err)
			b.Redis(t).Set(t.Context(), "holdfast:{b}", "theirs", time.Minute)
			expect.Err(t, "Extend", inner.Extend(t.Context(), time.Second), holdfast.ErrLost)
			<-inner.Done()
			b.Redis(t).Del(t.Context(), "holdfast:{b}")
			return outer, inner
		}
		outer, inner := lose(time.Minute)
		if err := outer.Extend(t.Context(), time.Minute); err != nil || outer.Err() != nil || inner.Err() == nil {
			t.Errorf("the outer lease: %v, %v; the inner one: %v", err, outer.Err(), inner.Err())
		}
		expect.Err(t, "Release of the inner lease", inner.Release(t.Context()), holdfast.ErrLost)
		wantHeld(t, b.Client(t, nil).Mutex("a"))
		backend.Release(t, outer)
		b.Cleaned(t)
		outer, _ = lose(5 * time.Second)
		_ = outer.Release(t.Context()) // a slow machine may have lost it
		b.Cleaned(t)
	})
}
