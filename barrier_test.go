package holdfast_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
)

// join joins the barrier "b" with a client of its own.
func (s *space) join(parties int, opts ...barrier.Option) *barrier.Party {
	s.t.Helper()
	party, err := barrier.New(s.client(), "b", parties, opts...).Join(s.t.Context())
	if err != nil {
		s.t.Fatalf("Join: %v", err)
	}
	return party
}

// awaitArrivals waits until that many parties have arrived at the present phase.
func (s *space) awaitArrivals(n int) {
	s.t.Helper()
	eventually(s.t, "the parties have arrived", func() bool { return s.do("HGET", s.key("b"), "arrived") == strconv.Itoa(n) })
}

func wantPhase(t *testing.T, phase uint64, all ...<-chan outcome[uint64]) {
	t.Helper()
	for _, over := range all {
		equal(t, "Await", succeeded(t, over), phase)
	}
}

func TestPartiesOfABarrierWaitForEachOther(t *testing.T) {
	s := inParallel(t)
	one, two, three := s.join(3), s.join(3), s.join(3)
	for phase := uint64(1); phase <= 3; phase++ {
		first, second := start(t, one.Await), start(t, two.Await)
		s.awaitArrivals(2)
		wantWaiting(t, "a party", first)
		wantWaiting(t, "a party", second)
		wantPhase(t, phase, first, second, start(t, three.Await))
	}
	for _, party := range []*barrier.Party{one, two, three} {
		want(t, "Leave", party.Leave(t.Context()), nil)
		want(t, "the lease of a party that left", party.Lease().Err(), holdfast.ErrReleased)
	}
	s.cleaned()
}

func TestAnArrivalIsTakenBackWithItsContext(t *testing.T) {
	s := inParallel(t)
	one, two := s.join(2), s.join(2)
	ctx, cancel := context.WithCancel(t.Context())
	first := start(t, func(context.Context) (uint64, error) { return one.Await(ctx) })
	s.awaitArrivals(1)
	_, err := one.Await(t.Context())
	want(t, "a second Await", err, holdfast.ErrInvalid)
	cancel()
	equal(t, "Await whose context ended", receive(t, first).err, context.Canceled)
	s.awaitArrivals(0)
	second := start(t, two.Await)
	s.awaitArrivals(1)
	wantPhase(t, 1, second, start(t, one.Await))
	_, _ = one.Leave(t.Context()), two.Leave(t.Context())
}
