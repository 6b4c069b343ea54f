package behaviour

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// lossOf waits until a lease is lost, and returns how.
func lossOf(t testing.TB, l *holdfast.Lease) *holdfast.LostError {
	t.Helper()
	select {
	case <-l.Done():
	case <-time.After(2 * time.Minute):
		t.Fatal("the lease does not end")
	}
	var lost *holdfast.LostError
	if !errors.As(context.Cause(l.Context(context.Background())), &lost) || !errors.Is(l.Err(), holdfast.ErrLost) {
		t.Fatalf("the lease ended with %v; Err %v", context.Cause(l.Context(context.Background())), l.Err())
	}
	return lost
}

// A deadline is the TTL after the request was sent, less 1% and 2 ms for clocks that run at different speeds.
//
// Bug: Expiry is measured from the wrong time.
func TestDeadlinesAllowForDrift(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		const ttl, drift = time.Minute, 602 * time.Millisecond
		l := b.Client(t, nil).Mutex("m", holdfast.TTL(ttl))
		before := time.Now()
		lease := backend.Acquire(t, l)
		after := time.Now()
		check := func(what string) {
			t.Helper()
			d := lease.Deadline()
			if d.Before(before.Add(ttl-drift-20*time.Millisecond)) || d.After(after.Add(ttl-drift)) {
				t.Errorf("%s: the deadline is between %s and %s after the sending", what, d.Sub(after), d.Sub(before))
			}
		}
		check("acquired")
		before = time.Now()
		expect.OK(t, lease.Extend(t.Context(), ttl))
		after = time.Now()
		check("extended")

		// After a hand-over, the lease is at first only a claim.
		next := queue(t, b.Client(t, nil).Mutex("m", holdfast.TTL(ttl)), 1)
		before = time.Now()
		backend.Release(t, lease)
		lease = backend.Receive(t, next)
		expect.Between(t, "how long a lease that was handed over lasts", time.Until(lease.Deadline()), 0, ttl-drift)
		backend.Release(t, lease)
	})
}

func TestRenewalsAreBounded(t *testing.T) {
	virtually(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		const ttl = 9 * time.Second
		start := time.Now()
		lease := backend.Acquire(t, c.Mutex("n", holdfast.TTL(ttl), holdfast.NoRenew()))
		work := lease.Context(t.Context())
		expect.Equal(t, "NoRenew: lost", lossOf(t, lease).Reason, holdfast.LossExpired)
		expect.Between(t, "NoRenew: how long it lasts", lease.Deadline().Sub(start), ttl/2, ttl)
		for what, err := range map[string]error{
			"Extend": lease.Extend(t.Context(), time.Second), "Release": lease.Release(t.Context()),
			"the cause of the work's end": context.Cause(work),
		} {
			expect.Err(t, "NoRenew: "+what+" after the deadline", err, holdfast.ErrLost)
		}
		last := lease.Fence()

		start = time.Now()
		lease = backend.Acquire(t, c.Mutex("n", holdfast.TTL(ttl), holdfast.MaxRenewals(2)))
		expect.Rises(t, last, lease.Fence())
		expect.Equal(t, "MaxRenewals: lost", lossOf(t, lease).Reason, holdfast.LossBound)
		// There were two renewals, at a third of the TTL each; drift takes some of that.
		expect.AtLeast(t, "MaxRenewals(2): over after", lease.Deadline().Sub(start), ttl+ttl/2)

		const bound = ttl * 4 / 3
		lease = backend.Acquire(t, c.Mutex("d", holdfast.TTL(ttl), holdfast.MaxHold(bound)))
		got := time.Now()
		expect.OK(t, lease.Extend(t.Context(), time.Hour))
		expect.Equal(t, "MaxHold: lost", lossOf(t, lease).Reason, holdfast.LossBound)
		expect.Between(t, "MaxHold: how long it lasts", lease.Deadline().Sub(got), bound/2, bound)
		// The server does not keep the lock longer either.
		if left, err := b.Redis(t).PTTL(t.Context(), "holdfast:{d}").Result(); err != nil || left > bound/4 {
			t.Errorf("MaxHold(%s): the key lives on for %s (%v)", bound, left, err)
		}
	})
}

func TestABoundedOrFixedLeaseIsHandedOver(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		for name, opts := range map[string][]holdfast.MutexOption{
			"fixed":   {holdfast.TTL(time.Hour), holdfast.NoRenew()},
			"bounded": {holdfast.TTL(time.Hour), holdfast.MaxHold(36 * time.Minute)},
		} {
			lease := backend.Acquire(t, b.Client(t, nil).Mutex(name))
			leases := queue(t, b.Client(t, nil).Mutex(name, opts...), 1)
			before := time.Now()
			backend.Release(t, lease)
			lease = backend.Receive(t, leases)
			// A lease that is not renewed has its full length from the beginning.
			if d := lease.Deadline().Sub(before); name != "bounded" && d < 48*time.Minute {
				t.Errorf("%s: returned with %s left", name, d)
			}
			// More than the claim: the server was asked, now or soon.
			backend.Eventually(t, name+": the claim becomes a lease", func() bool {
				return time.Until(lease.Deadline()) > 24*time.Minute
			})
			if name != "bounded" && time.Until(lease.Deadline()) < 48*time.Minute {
				t.Errorf("%s: %s left", name, time.Until(lease.Deadline()))
			}
			if lease.Deadline().After(time.Now().Add(time.Hour)) {
				t.Errorf("%s: %s left", name, time.Until(lease.Deadline()))
			}
			backend.Release(t, lease)
		}
	})
}

// Bug: An extension by 0 deletes the key.
func TestExtend(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("m", holdfast.TTL(time.Minute), holdfast.NoRenew()))
		expect.OK(t, lease.Extend(t.Context(), time.Hour))
		long := lease.Deadline()
		expect.Between(t, "what is left after Extend by an hour", time.Until(long), 50*time.Minute, time.Hour)
		// Nothing shortens an expiry.
		expect.OK(t, lease.Extend(t.Context(), time.Second))
		if lease.Deadline().Before(long.Add(-5 * time.Minute)) {
			t.Errorf("a shorter Extend brought the deadline from %s to %s", long, lease.Deadline())
		}
		expect.Between(t, "the TTL after a shorter Extend", b.Redis(t).PTTL(t.Context(), "holdfast:{m}").Val(), 50*time.Minute, time.Hour)
		for _, ttl := range []time.Duration{0, -1, time.Microsecond, 100 * 365 * 24 * time.Hour} {
			expect.Err(t, "Extend("+ttl.String()+")", lease.Extend(t.Context(), ttl), holdfast.ErrInvalid)
		}
		if held, _ := backend.IsHeld(t.Context(), b.Client(t, nil).Mutex("m")); !held || lease.Err() != nil {
			t.Errorf("a refused Extend cost the lock: held %v, %v", held, lease.Err())
		}
	})
}

// Fault: Somebody overwrites the key of a held lock. The holder is told within its TTL, and the stranger's key is left alone.
func TestAStrangersLockIsLeftAlone(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c, rdb := b.Client(t, nil), b.Redis(t)
		for name, taken := range map[string]string{"ours": "", "foreign": "a-token-of-theirs"} {
			lease := backend.Acquire(t, c.Mutex(name, holdfast.TTL(time.Minute)))
			key := "holdfast:{" + name + "}"
			if taken == "" { // by another holder of ours, after an operator deleted the first one's lock
				rdb.Del(t.Context(), key)
				backend.Acquire(t, b.Client(t, nil).Mutex(name, holdfast.TTL(time.Hour)))
				taken = rdb.Get(t.Context(), key).Val()
			} else {
				rdb.Set(t.Context(), key, taken, time.Hour)
			}
			expect.ErrBut(t, name+": Release of a lock that is another's", lease.Release(t.Context()), holdfast.ErrLost, holdfast.ErrAmbiguous)
			expect.Equal(t, name+": the other's value", rdb.Get(t.Context(), key).Val(), taken)
			expect.Between(t, name+": the other's TTL", rdb.PTTL(t.Context(), key).Val(), 50*time.Minute, time.Hour)
		}
	})
}

func TestACancelledHeadPassesItsPlaceOn(t *testing.T) {
	virtually(t, func(t *testing.T, b *backend.Backend) {
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("m"))
		both := b.Client(t, nil)
		giving, cancel := context.WithCancel(t.Context())
		gone := async(func() error { return expect.ErrOf(both.Mutex("m").Acquire(giving)) })
		backend.Waiters(t, both.Mutex("m"), 1)
		heir := make(chan *holdfast.Lease, 2)
		for _, opts := range [][]holdfast.MutexOption{nil, {holdfast.Identity("other")}} {
			go func() {
				l, err := both.Mutex("m", opts...).Acquire(t.Context())
				noError(t, err)
				heir <- l
			}()
			time.Sleep(100 * time.Millisecond) // until it is in the wait queue
		}
		later := queue(t, b.Client(t, nil).Mutex("m"), 2)
		cancel()
		<-gone
		backend.Release(t, lease)
		backend.Release(t, backend.Receive(t, heir))
		// The next waiter in that process wants other options, and comes after the other process.
		backend.Release(t, backend.Receive(t, later))
		backend.Release(t, backend.Receive(t, heir))
		wantNoKeys(t, b)
	})
}

// Fault: The fence counter, or everything, is deleted. Fences still rise.
func TestFencesRise(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c, rdb := b.Client(t, nil), b.Redis(t)
		last := uint64(0)
		for what, prepare := range slices.All([]func(){
			func() {},
			func() {}, // after a release
			func() { rdb.Del(t.Context(), "holdfast:{m}") },                                     // a deletion
			func() { rdb.Del(t.Context(), "holdfast:fences") },                                  // the loss of the counter
			func() { rdb.FlushAll(t.Context()) },                                                // the loss of everything
			func() { backend.SetCounter(t, rdb, "holdfast:fences", int64(last)+3_600_000_000) }, // a counter an hour ahead
			func() {},
		}) {
			prepare()
			time.Sleep(time.Millisecond) // a lost counter begins anew at the server's time, which must advance
			lease := backend.Acquire(t, c.Mutex("m"))
			expect.Rises(t, last, lease.Fence())
			last = lease.Fence()
			if what != 1 {
				backend.Release(t, lease)
			}
		}
	})
}

// If a process is granted a lock that it believes it still holds, it had lost it: the older lease ends at once, however it was acquired.
func TestANewGrantEndsTheLeaseBeforeIt(t *testing.T) {
	ways := map[string]func(*holdfast.Lock, context.Context) (*holdfast.Lease, error){
		"Acquire": (*holdfast.Lock).Acquire, "TryAcquire": (*holdfast.Lock).TryAcquire,
	}
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		for first, acquire := range ways {
			for second, again := range ways {
				// A renewal, 2 s after the grant, would take the deleted lock back.
				l := c.Mutex("m", holdfast.TTL(time.Hour), holdfast.NoRenew())
				old := expect.Of(acquire(l, t.Context())).OK(t)
				b.Redis(t).Del(t.Context(), "holdfast:{m}")
				lease := expect.Of(again(l, t.Context())).OK(t)
				if err := old.Err(); !errors.Is(err, holdfast.ErrLost) || lease.Err() != nil {
					t.Errorf("%s, and then %s: the first lease: %v; the second: %v", first, second, err, lease.Err())
				}
				expect.Err(t, first+", and then "+second+": Release of the first", old.Release(t.Context()), holdfast.ErrLost)
				backend.Release(t, lease)
			}
		}
		b.Cleaned(t)
	})
}
