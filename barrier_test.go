package holdfast_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// join joins the barrier "b" with a client of its own.
func (s *space) join(parties int, opts ...holdfast.BarrierOption) *holdfast.BarrierParty {
	s.t.Helper()
	party, err := s.client().Barrier("b", parties, opts...).Join(s.t.Context())
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
		if got := succeeded(t, over); got != phase {
			t.Errorf("Await returns phase %d, want %d", got, phase)
		}
	}
}

// wantBroken requires that each party learns who broke a phase.
func wantBroken(t *testing.T, phase uint64, who string, died bool, all ...<-chan outcome[uint64]) {
	t.Helper()
	for _, over := range all {
		got := receive(t, over)
		var broken *holdfast.BarrierBrokenError
		if !errors.Is(got.err, holdfast.ErrBarrierBroken) || !errors.As(got.err, &broken) || broken.Phase != phase || broken.Died != died || broken.Party.Owner != who {
			t.Errorf("Await: %d, %v; want phase %d broken by %s", got.value, got.err, phase, who)
		}
	}
}

func TestPartiesOfABarrierWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	one, two, three := s.join(3), s.join(3), s.join(3)
	for phase := uint64(1); phase <= 3; phase++ {
		first, second := start(t, one.Await), start(t, two.Await)
		s.awaitArrivals(2)
		wantWaiting(t, "a party", first)
		wantWaiting(t, "a party", second)
		wantPhase(t, phase, first, second, start(t, three.Await))
	}
	for _, party := range []*holdfast.BarrierParty{one, two, three} {
		if err := party.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		want(t, "the lease of a party that left", party.Lease().Err(), holdfast.ErrReleased)
	}
	s.cleaned()
}

// A party that leaves or dies breaks the phase for all, and another can take its place.
func TestABarrierBreaks(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	one, two := s.join(3), s.join(3)
	first := start(t, one.Await)
	s.awaitArrivals(1)
	dying := s.join(3, holdfast.Owner("dying"), holdfast.TTL(mortal), holdfast.NoRenew())
	wantBroken(t, 1, "dying", true, first)
	_, err := dying.Await(t.Context())
	want(t, "Await of a party that died", err, holdfast.ErrLost)
	wantBroken(t, 1, "dying", true, start(t, two.Await)) // though it came later

	leaving := s.join(3, holdfast.Owner("leaving"))
	first, second := start(t, one.Await), start(t, two.Await)
	s.awaitArrivals(2)
	if err := leaving.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantBroken(t, 2, "leaving", false, first, second)

	three := s.join(3)
	wantPhase(t, 3, start(t, one.Await), start(t, two.Await), start(t, three.Await))
	for _, party := range []*holdfast.BarrierParty{one, two, three} {
		_ = party.Leave(t.Context())
	}
}

func TestAnArrivalIsTakenBackWithItsContext(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	one, two := s.join(2), s.join(2)
	ctx, cancel := context.WithCancel(t.Context())
	first := start(t, func(context.Context) (uint64, error) { return one.Await(ctx) })
	s.awaitArrivals(1)
	_, err := one.Await(t.Context())
	want(t, "a second Await", err, holdfast.ErrInvalid)
	cancel()
	if got := receive(t, first); got.err != context.Canceled {
		t.Errorf("Await whose context ended: %+v", got)
	}
	s.awaitArrivals(0)
	second := start(t, two.Await)
	s.awaitArrivals(1)
	wantPhase(t, 1, second, start(t, one.Await))
	_, _ = one.Leave(t.Context()), two.Leave(t.Context())
}

func TestABarrierHasSoManyParties(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	one, two := s.join(2), s.join(2)
	b := s.client().Barrier("b", 2, holdfast.Owner("third"))
	_, err := b.TryJoin(t.Context())
	want(t, "TryJoin of a full barrier", err, holdfast.ErrHeld)
	third := start(t, b.Join)
	awaitWaiters(t, b, 1)
	_, err = s.client().Barrier("b", 3).TryJoin(t.Context())
	want(t, "another number of parties", err, holdfast.ErrMismatch)
	if err := one.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	party := succeeded(t, third)
	got := status(t, b)
	if b.Name() != "b" || got.Kind != holdfast.KindBarrier || got.Limit != 2 || len(got.Holders) != 2 || got.Holders[0].Mode != holdfast.ModeParty {
		t.Errorf("Status: %+v", got)
	}
	_, _ = party.Leave(t.Context()), two.Leave(t.Context())
	if party, err = b.TryJoin(t.Context()); err != nil {
		t.Fatalf("TryJoin of an empty barrier: %v", err)
	}
	_ = party.Leave(t.Context())
	s.cleaned()
}

func TestBarrierRefuses(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	c := s.client()
	for what, b := range map[string]*holdfast.Barrier{
		"no name": c.Barrier("", 2), "no parties": c.Barrier("b", 0), "too many": c.Barrier("b", 10_001), "a TTL of 0": c.Barrier("b", 2, holdfast.TTL(0)),
	} {
		_, err1 := b.Join(t.Context())
		_, err2 := b.TryJoin(t.Context())
		_, err3 := b.Status(t.Context())
		for _, err := range []error{err1, err2, err3} {
			want(t, what, err, holdfast.ErrInvalid)
		}
	}
}
