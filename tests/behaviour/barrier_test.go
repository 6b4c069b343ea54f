package behaviour

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// join joins the barrier "b" with a client of its own.
func join(t testing.TB, b *backend.Backend, parties int, opts ...barrier.Option) *barrier.Party {
	t.Helper()
	ctx := lasting(t, 20*time.Second)
	party, err := barrier.New(b.Client(t, nil), "b", parties, append([]barrier.Option{holdfast.TTL(time.Minute)}, opts...)...).Join(ctx)
	expect.OK(t, err)
	return party
}

// arrival is the outcome of an Await.
type arrival struct {
	phase uint64
	err   error
}

func await(ctx context.Context, p *barrier.Party) <-chan arrival {
	over := make(chan arrival, 1)
	go func() {
		phase, err := p.Await(ctx)
		over <- arrival{phase, err}
	}()
	return over
}

// arrivals waits for several outcomes.
func arrivals(t testing.TB, all ...<-chan arrival) (got []arrival) {
	t.Helper()
	for _, over := range all {
		select {
		case a := <-over:
			got = append(got, a)
		case <-time.After(15 * time.Second):
			t.Fatal("a party was not woken")
		}
	}
	return got
}

// tripped requires that all have passed that phase.
func tripped(t testing.TB, phase uint64, all ...<-chan arrival) {
	t.Helper()
	for _, a := range arrivals(t, all...) {
		if a.err != nil || a.phase != phase {
			t.Fatalf("Await: phase %d, %v; want %d", a.phase, a.err, phase)
		}
	}
}

// broken requires that all were told which party broke that phase.
func broken(t testing.TB, phase uint64, who string, died bool, all ...<-chan arrival) {
	t.Helper()
	for _, a := range arrivals(t, all...) {
		var e *barrier.BrokenError
		if !errors.Is(a.err, barrier.ErrBroken) || !errors.As(a.err, &e) || e.Phase != phase || e.Died != died || e.Party.Identity != who {
			t.Fatalf("Await: phase %d, %v; want phase %d broken by %s", a.phase, a.err, phase, who)
		}
	}
}

// waiting waits until that many parties have arrived at the present phase.
func waiting(t testing.TB, b *backend.Backend, want string) {
	t.Helper()
	rdb := b.Redis(t)
	backend.Eventually(t, want+" have arrived", func() bool {
		n, err := rdb.HGet(t.Context(), "holdfast:{b}", "arrived").Result()
		return err == nil && n == want
	})
}

// A party that leaves, or dies, breaks the phase for all. Another one takes its place, and the barrier goes on.
func TestBarrierBreaks(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		one, two := join(t, b, 3), join(t, b, 3)
		dying := join(t, b, 3, holdfast.Identity("dying"), holdfast.TTL(6*time.Second), holdfast.NoRenew())
		first := await(t.Context(), one)
		waiting(t, b, "1")
		expect.Err(t, "a second Await", expect.ErrOf(one.Await(t.Context())), holdfast.ErrInvalid)
		broken(t, 1, "dying", true, first)
		expect.Err(t, "the lease of a party that has died", dying.Lease().Err(), holdfast.ErrLost)
		expect.Err(t, "Await of a party that has died", expect.ErrOf(dying.Await(t.Context())), holdfast.ErrLost)
		broken(t, 1, "dying", true, await(t.Context(), two)) // a party that was not waiting when the phase broke

		leaving := join(t, b, 3, holdfast.Identity("leaving"))
		first, second := await(t.Context(), one), await(t.Context(), two)
		waiting(t, b, "2")
		backend.Release(t, leaving.Lease())
		broken(t, 2, "leaving", false, first, second)

		three := join(t, b, 3)
		tripped(t, 3, await(t.Context(), one), await(t.Context(), two), await(t.Context(), three))
		// Several parties leave at once: each of the others learns of the first phase that it missed.
		expect.Err(t, "Leave", errors.Join(two.Leave(t.Context()), three.Leave(t.Context())), nil)
		expect.Err(t, "the lease of a party that left", two.Lease().Err(), holdfast.ErrReleased)
		first = await(t.Context(), one)
		expect.Err(t, "Await", arrivals(t, first)[0].err, barrier.ErrBroken)
		two, three = join(t, b, 3), join(t, b, 3)
		tripped(t, 6, await(t.Context(), one), await(t.Context(), two), await(t.Context(), three))
		b.Redis(t).Del(t.Context(), "holdfast:{b}")
		expect.Err(t, "Await of a party that has lost its place", arrivals(t, await(t.Context(), two))[0].err, holdfast.ErrLost) // long before a renewal
	})
}

// A barrier admits no more parties than it has places; others wait for one.
func TestBarrierHasSoManyParties(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		one, two := join(t, b, 2, holdfast.Identity("one")), join(t, b, 2, holdfast.Identity("two"))
		waiter := barrier.New(b.Client(t, nil), "b", 2, holdfast.Identity("three"))
		expect.Err(t, "TryJoin of a third of two", expect.ErrOf(waiter.TryJoin(t.Context())), holdfast.ErrHeld)
		other := barrier.New(b.Client(t, nil), "b", 3)
		expect.Err(t, "TryJoin with another number of parties", expect.ErrOf(other.TryJoin(t.Context())), holdfast.ErrMismatch)
		third := make(chan *barrier.Party, 1)
		go func() {
			party, err := waiter.Join(t.Context())
			expect.Err(t, "Join", err, nil)
			third <- party
		}()
		oneWaits := func() {
			t.Helper()
			backend.Eventually(t, "another waits for a place", func() bool {
				s, err := waiter.Status(t.Context())
				return err == nil && len(s.Holders) == 2 && len(s.Waiters) == 1
			})
		}
		oneWaits()
		first := await(t.Context(), one)
		waiting(t, b, "1")
		backend.Release(t, two.Lease())
		broken(t, 1, "two", false, first)
		tripped(t, 2, await(t.Context(), one), await(t.Context(), <-third))

		// A party that gives up while it waits for a place breaks nothing.
		ctx, cancel := context.WithCancel(t.Context())
		over := async(func() error { return expect.ErrOf(barrier.New(b.Client(t, nil), "b", 2).Join(ctx)) })
		oneWaits()
		cancel()
		expect.Equal(t, "Join", <-over, context.Canceled)
		backend.Eventually(t, "the fourth has left the queue", func() bool {
			s, err := waiter.Status(t.Context())
			return err == nil && len(s.Waiters) == 0
		})
		backend.Release(t, one.Lease())
		fourth := expect.Of(waiter.TryJoin(t.Context())).OK(t)
		backend.Release(t, fourth.Lease())
	})
}

func TestBarrierOfAClientThatCloses(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		party := expect.Of(barrier.New(c, "b", 2, holdfast.Identity("closes")).Join(t.Context())).OK(t)
		other := join(t, b, 2)
		first := await(t.Context(), party)
		tripped(t, 1, first, await(t.Context(), other))
		first = await(t.Context(), party)
		waiting(t, b, "1")
		closed := async(func() error { return c.Close(t.Context()) })
		expect.Err(t, "Await", arrivals(t, first)[0].err, holdfast.ErrClosed)
		backend.Release(t, party.Lease())
		noError(t, <-closed)
		broken(t, 2, "closes", false, await(t.Context(), other))
		watched(t, b, "b", 1)
	})
}

// countdown returns the test's latch, with a client of its own.
func countdown(t testing.TB, b *backend.Backend, parties int, opts ...latch.Option) *latch.Latch {
	return latch.New(b.Client(t, nil), "l", parties, append([]latch.Option{holdfast.TTL(time.Minute)}, opts...)...)
}

// watched waits until that many processes are subscribed to changes.
func watched(t testing.TB, b *backend.Backend, name string, n int64) {
	t.Helper()
	channel, rdb := "holdfast:c:w:holdfast:{"+name+"}", b.Redis(t)
	backend.Eventually(t, "the waiters are subscribed", func() bool {
		subscribers, err := rdb.PubSubNumSub(t.Context(), channel).Result()
		return err == nil && subscribers[channel] == n
	})
}

// A party that leaves, or dies, is no longer waited for, and waiters are told.
func TestLatchOfPartiesThatEnd(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := countdown(t, b, 3)
		// A waiter that hears nothing looks after 30 s.
		ctx := lasting(t, 15*time.Second)
		over := async(func() error { return l.Wait(ctx) })
		leaving := expect.Of(l.Register(t.Context())).OK(t)
		dying, err := countdown(t, b, 3, holdfast.TTL(6*time.Second), holdfast.NoRenew()).Register(t.Context())
		expect.OK(t, err)
		backend.Release(t, leaving.Lease())
		expect.Err(t, "CountDown of a party that has left", leaving.CountDown(t.Context()), holdfast.ErrReleased)
		expect.OK(t, l.CountDown(t.Context()))
		err = <-over
		var incomplete *latch.IncompleteError
		if !errors.Is(err, latch.ErrIncomplete) || !errors.As(err, &incomplete) || incomplete.Missing != 2 || incomplete.Parties != 3 {
			t.Errorf("Wait: %v", err)
		}
		expect.Err(t, "the lease of a party that has died", dying.Lease().Err(), holdfast.ErrLost)
		expect.Err(t, "CountDown of a party that has died", dying.CountDown(t.Context()), holdfast.ErrLost)
		expect.Err(t, "a late Wait", l.Wait(t.Context()), latch.ErrIncomplete)
		expect.Of(l.Count(t.Context())).Is(t, "the count", 0)
	})
}
