package behaviour

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// several returns the locks with these names as one, with a client of their own.
func several(t testing.TB, b *backend.Backend, names ...string) *holdfast.Lock {
	return b.Client(t, nil).Multi(names)
}

func TestMultiIsAllOrNothing(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		one := b.Client(t, nil)
		for _, name := range []string{"a", "b", "c"} {
			taken := backend.Acquire(t, one.Mutex(name))
			_, err := several(t, b, "c", "a", "b").TryAcquire(t.Context())
			var held *holdfast.HeldError
			if !errors.As(err, &held) || held.Name != name || !backend.IsShown(held.Holder.Fence, taken.Fence()) {
				t.Errorf("TryAcquire while %q is held: %v", name, err)
			}
			for _, other := range []string{"a", "b", "c"} {
				if other != name {
					backend.Release(t, backend.Acquire(t, one.Mutex(other)))
				}
			}
			backend.Release(t, taken)
		}
		all := several(t, b, "c", "a", "b")
		lease := backend.Acquire(t, all)
		for _, name := range []string{"a", "b", "c"} {
			wantHeld(t, one.Mutex(name))
		}
		if holders, err := backend.HoldersOf(t.Context(), all); err != nil || len(holders) != 3 {
			t.Errorf("Holders: %+v, %v; want three", holders, err)
		}
		backend.Release(t, lease)
		backend.Release(t, lease) // counts once
		if err := lease.Err(); !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("Err after the release: %v", err)
		}
		if held, err := backend.IsHeld(t.Context(), all); err != nil || held {
			t.Errorf("after the release it is held: %t, %v", held, err)
		}
		b.Cleaned(t)
	})
}

func TestMultiFreeCostsOneRoundTrip(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		all := c.Multi([]string{"a", "b", "c"})
		backend.Release(t, backend.Acquire(t, all))
		settled(t, b, c)
		before := asked(b.Server)
		lease := backend.Acquire(t, all)
		if n := asked(b.Server) - before; n != 1 {
			t.Errorf("%d scripts for three free locks; want 1", n)
		}
		backend.Release(t, lease)
	})
}

func TestMultiTellsEachFence(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		all := several(t, b, "b", "a")
		last := map[string]uint64{}
		for range 3 {
			for name := range last {
				lease := backend.Acquire(t, b.Client(t, nil).Mutex(name))
				if tokens := lease.Fences(); len(tokens) != 1 || tokens[name] != lease.Fence() {
					t.Errorf("Tokens of one lock with fence %d: %v", lease.Fence(), tokens)
				}
				last[name] = lease.Fence()
				backend.Release(t, lease)
			}
			lease := backend.Acquire(t, all)
			tokens := lease.Fences()
			if len(tokens) != 2 || lease.Fence() != max(tokens["a"], tokens["b"]) {
				t.Errorf("Tokens: %v, Token: %d", tokens, lease.Fence())
			}
			for _, name := range []string{"a", "b"} {
				if tokens[name] <= last[name] {
					t.Errorf("fence %d of %q follows %d", tokens[name], name, last[name])
				}
				last[name] = tokens[name]
			}
			backend.Release(t, lease)
		}
	})
}

// It waits for each lock in its queue, and holds the others meanwhile.
func TestMultiWaitsInTheQueues(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		one := b.Client(t, nil)
		c, d := backend.Acquire(t, one.Mutex("c")), backend.Acquire(t, one.Mutex("d"))
		leases := backend.Start(t, several(t, b, "d", "a", "c"))
		backend.Waiters(t, one.Mutex("c"), 1)
		wantHeld(t, one.Mutex("a"))
		behind := queue(t, b.Client(t, nil).Mutex("c"), 2)
		backend.Release(t, c)
		backend.Waiters(t, one.Mutex("d"), 1)
		wantAsleep(t, "all of them", leases)
		backend.Release(t, d)
		lease := backend.Receive(t, leases)
		wantAsleep(t, "the waiter for one of them", behind)
		backend.Release(t, lease)
		backend.Release(t, backend.Receive(t, behind))
		b.Cleaned(t)
	})
}

// If it does not get all locks, those that it had are free again.
func TestMultiCancelledLeavesNothing(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		one := b.Client(t, nil)
		taken := backend.Acquire(t, one.Mutex("b"))
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		all := several(t, b, "a", "b", "c")
		go func() {
			_, err := all.Acquire(ctx)
			failed <- err
		}()
		backend.Waiters(t, one.Mutex("b"), 1)
		wantHeld(t, one.Mutex("a"))
		cancel()
		if err := <-failed; err != context.Canceled {
			t.Errorf("Acquire, cancelled: %v", err)
		}
		backend.Release(t, backend.Acquire(t, one.Mutex("a")))
		backend.Release(t, taken)
		b.Cleaned(t)
	})
}

// A lock that is lost while others are waited for is acquired again.
func TestMultiLosesOneWhileItWaits(t *testing.T) {
	t.Parallel()
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
		if err := lease.Err(); err != nil {
			t.Error(err)
		}
		wantHeld(t, one.Mutex("a"))
		wantHeld(t, one.Mutex("b"))
		backend.Release(t, lease)
		b.Cleaned(t)
	})
}

// Fault: One lock of several is lost. The lease is lost; the others stay held until they expire or the lease is
// released.
func TestMultiIsLostWithOne(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		one := b.Client(t, nil)
		for _, release := range []bool{true, false} {
			ttl := 5 * time.Second
			if release {
				ttl = time.Minute
			}
			lease := backend.Acquire(t, b.Client(t, nil).Multi([]string{"a", "b", "c"}, holdfast.TTL(ttl)))
			b.Redis(t).Set(t.Context(), "holdfast:{b}", "theirs", time.Minute)
			if err := lease.Extend(t.Context(), ttl); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("Extend of what is lost: %v", err)
			}
			<-lease.Done()
			var lost *holdfast.LostError
			if cause := context.Cause(lease.Context(context.Background())); !errors.As(cause, &lost) || lost.Name != "b" {
				t.Errorf("the context ends with %v", cause)
			}
			if err := lease.Err(); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("Err: %v", err)
			}
			if release {
				wantHeld(t, one.Mutex("a"))
				if err := lease.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("Release of what is lost: %v", err)
				}
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
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		lose := func(ttl time.Duration) (outer, inner *holdfast.Lease) {
			t.Helper()
			outer = backend.Acquire(t, c.Mutex("a", holdfast.Reentrant(), holdfast.TTL(ttl)))
			inner, err := c.Multi([]string{"a", "b"}, holdfast.Reentrant(), holdfast.TTL(ttl)).Acquire(outer.Context(context.Background()))
			if err != nil {
				t.Fatal(err)
			}
			b.Redis(t).Set(t.Context(), "holdfast:{b}", "theirs", time.Minute)
			if err := inner.Extend(t.Context(), time.Second); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("Extend: %v", err)
			}
			<-inner.Done()
			b.Redis(t).Del(t.Context(), "holdfast:{b}")
			return outer, inner
		}
		outer, inner := lose(time.Minute)
		if err := outer.Extend(t.Context(), time.Minute); err != nil || outer.Err() != nil || inner.Err() == nil {
			t.Errorf("the outer lease: %v, %v; the inner one: %v", err, outer.Err(), inner.Err())
		}
		if err := inner.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Release of the inner lease: %v", err)
		}
		wantHeld(t, b.Client(t, nil).Mutex("a"))
		backend.Release(t, outer)
		b.Cleaned(t)
		outer, _ = lose(5 * time.Second)
		_ = outer.Release(t.Context()) // a slow machine may have lost it
		b.Cleaned(t)
	})
}

// Callers that name the locks in any order, several together and single ones, never wait for each other in a
// circle, and never hold the same lock.
func TestMultiNeverDeadlocks(t *testing.T) {
	t.Parallel()
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
							if n := holders[i].Add(1); n != 1 {
								t.Errorf("%q has %d holders", names[i], n)
							}
							if before := last[i].Swap(tokens[names[i]]); before >= tokens[names[i]] {
								t.Errorf("fence %d of %q follows %d", tokens[names[i]], names[i], before)
							}
						}
						time.Sleep(time.Duration(dice.IntN(2)) * time.Millisecond)
						for _, i := range order {
							holders[i].Add(-1)
						}
						if err := lease.Release(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		b.Cleaned(t)
	})
}

func TestMultiDo(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		all := b.Client(t, nil).Multi([]string{"a", "b"}, holdfast.Reentrant(), holdfast.Meta("job", "move"))
		broken := errors.New("broken")
		err := all.Do(t.Context(), func(ctx context.Context, outer *holdfast.Lease) error {
			wantHeld(t, several(t, b, "b", "c"))
			return all.Do(ctx, func(ctx context.Context, inner *holdfast.Lease) error {
				if inner.Fence() != outer.Fence() || inner.Name() != "a, b" {
					t.Errorf("within %q with fence %d, it is %q with %d", outer.Name(), outer.Fence(), inner.Name(), inner.Fence())
				}
				return broken
			})
		})
		if !errors.Is(err, broken) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Do: %v", err)
		}
		b.Cleaned(t)
	})
}

func TestMultiIsRenewed(t *testing.T) {
	t.Parallel()
	backend.EachLong(t, func(t *testing.T, b *backend.Backend) {
		lease := backend.Acquire(t, b.Client(t, nil).Multi([]string{"a", "b"}, holdfast.TTL(6*time.Second)))
		begun := lease.Deadline()
		backend.Eventually(t, "all are renewed", func() bool { return lease.Err() != nil || lease.Deadline().After(begun) })
		if err := lease.Extend(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if left := time.Until(lease.Deadline()); left < 30*time.Second {
			t.Errorf("after an Extend by a minute, %s is left", left)
		}
		backend.Release(t, lease)
	})
}

func TestMultiPolls(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		taken := backend.Acquire(t, b.Client(t, nil).Mutex("b"))
		c := b.Client(t, nil)
		// Connecting, and loading scripts, would count as time without an answer.
		if _, err := c.Multi([]string{"a", "b"}, holdfast.Poll(time.Millisecond)).TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("TryAcquire: %v", err)
		}
		if _, err := c.Multi([]string{"a", "b"}, holdfast.Poll(time.Millisecond), holdfast.Wait(3*time.Millisecond)).Acquire(t.Context()); !timedOut(b, err) {
			t.Errorf("after some tries: %v", err)
		}
		leases := backend.Start(t, c.Multi([]string{"a", "b"}, holdfast.Poll(5*time.Millisecond)))
		backend.Release(t, taken)
		backend.Release(t, backend.Receive(t, leases))
		b.Cleaned(t)
	})
}

func TestMultiOfBadNames(t *testing.T) {
	t.Parallel()
	c := unreachable(t)
	many := make([]string, 257)
	for i := range many {
		many[i] = fmt.Sprint("n", i)
	}
	for what, l := range map[string]*holdfast.Lock{
		"no name":         c.Multi(nil),
		"one name":        c.Multi([]string{"a"}),
		"257 names":       c.Multi(many),
		"a name twice":    c.Multi([]string{"a", "b", "a"}),
		"an empty name":   c.Multi([]string{"a", ""}),
		"a long name":     c.Multi([]string{"a", strings.Repeat("x", 1<<20)}),
		"no time":         c.Multi([]string{"a", "b"}, holdfast.MaxHold(0)),
		"no renewals":     c.Multi([]string{"a", "b"}, holdfast.MaxRenewals(0)),
		"too short a TTL": c.Multi([]string{"a", "b"}, holdfast.TTL(time.Millisecond)),
	} {
		_, err := l.TryAcquire(t.Context())
		_, err2 := l.Acquire(t.Context())
		_, err3 := backend.HoldersOf(t.Context(), l)
		for _, err := range []error{err, err2, err3} {
			if !errors.Is(err, holdfast.ErrInvalid) || len(err.Error()) > 1500 {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if l := c.Multi(slices.Repeat([]string{"a"}, 2)); l.Name() != "a, a" {
		t.Errorf("the name is %q", l.Name())
	}
}

func TestMultiWhenTheClientCloses(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		one := b.Client(t, nil)
		taken := backend.Acquire(t, one.Mutex("b"))
		c := b.Client(t, nil)
		lease := backend.Acquire(t, c.Multi([]string{"x", "y"}))
		failed := make(chan error, 1)
		go func() {
			_, err := c.Multi([]string{"a", "b"}).Acquire(t.Context())
			failed <- err
		}()
		backend.Waiters(t, one.Mutex("b"), 1)
		closed := make(chan error, 1)
		go func() { closed <- c.Close(t.Context()) }()
		if err := <-failed; !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("Acquire of a client that closes: %v", err)
		}
		<-lease.Done()
		if err := lease.Err(); !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("a lease of a client that closes: %v", err)
		}
		backend.Release(t, lease)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		backend.Release(t, taken)
		b.Cleaned(t)
	})
}

// Bounds end the leases of all locks, and the server does not keep any of them longer, whether they were acquired at once
// or one after another.
func TestMultiIsBounded(t *testing.T) {
	t.Parallel()
	backend.Virtual(t, func(t *testing.T, b *backend.Backend) {
		c, other := b.Client(t, nil), b.Client(t, nil)
		for name, test := range map[string]struct {
			bound  holdfast.MultiOption
			thirds int // of the TTL that the lease lasts at most, but for a bit
			reason holdfast.LossReason
		}{
			"NoRenew":     {holdfast.NoRenew(), 3, holdfast.LossExpired},
			"MaxRenewals": {holdfast.MaxRenewals(2), 5, holdfast.LossBound},
			"MaxHold":     {nil, 4, holdfast.LossBound},
		} {
			for _, waits := range []bool{false, true} {
				const ttl = 9 * time.Second
				bound := test.bound
				if bound == nil {
					bound = holdfast.MaxHold(ttl * 4 / 3)
				}
				l := c.Multi([]string{"a", "b"}, holdfast.TTL(ttl), bound)
				var lease *holdfast.Lease
				if waits {
					blocking := backend.Acquire(t, other.Mutex("b"))
					leases := backend.Start(t, l)
					backend.Waiters(t, other.Mutex("b"), 1)
					time.Sleep(ttl)
					backend.Release(t, blocking)
					lease = backend.Receive(t, leases)
				} else {
					lease = backend.Acquire(t, l)
				}
				got := time.Now()
				if lost := lossOf(t, lease); lost.Reason != test.reason {
					t.Errorf("%s: lost: %s", name, lost.Reason)
				}
				_ = lease.Release(t.Context())
				least := ttl*time.Duration(test.thirds)/3 - ttl/4
				if waits {
					least -= ttl / 3 // the first renewal may follow at once
				}
				if d := lease.Deadline().Sub(got); d < least || d > ttl*time.Duration(test.thirds+1)/3 {
					t.Errorf("%s, waits %t: over after %s, TTL %s", name, waits, d, ttl)
				}
				backend.Release(t, backend.Acquire(t, other.Multi([]string{"a", "b"})))
			}
		}
	})
}
