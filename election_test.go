package holdfast_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
)

// candidate runs for an election.
type candidate struct {
	terms  chan term  // one for each term that it wins
	answer chan error // what its lead returns
	over   chan error // what Run returned
}

type term struct {
	ctx   context.Context
	lease *holdfast.Lease
}

func campaign(ctx context.Context, e *election.Election) *candidate {
	c := &candidate{make(chan term), make(chan error), make(chan error, 1)}
	go func() {
		c.over <- e.Run(ctx, func(ctx context.Context, lease *holdfast.Lease) error {
			c.terms <- term{ctx, lease}
			return <-c.answer
		})
	}()
	return c
}

func TestLeadersFollowEachOther(t *testing.T) {
	s := inParallel(t)
	e := election.New(s.client().Mutex("e", holdfast.Identity("first")))
	_, err := e.Leader(t.Context())
	want(t, "Leader while nobody leads", err, holdfast.ErrNotHeld)
	first := campaign(t.Context(), e)
	one := receive(t, first.terms)
	if h, err := election.New(s.client().Mutex("e")).Leader(t.Context()); err != nil || h.Identity != "first" || h.Fence != one.lease.Fence() {
		t.Errorf("Leader: %+v, %v", h, err)
	}
	second := campaign(t.Context(), election.New(s.client().Mutex("e")))
	awaitWaiters(t, e, 1)

	first.answer <- election.ErrResign // it campaigns again, behind the second
	two := receive(t, second.terms)
	if two.lease.Fence() <= one.lease.Fence() || two.ctx.Err() != nil {
		t.Errorf("fence %d follows %d; the term: %v", two.lease.Fence(), one.lease.Fence(), two.ctx.Err())
	}
	equal(t, "the end of the first term", context.Cause(one.ctx), holdfast.ErrReleased)
	awaitWaiters(t, e, 1)
	second.answer <- errBroken // for good
	equal(t, "Run", receive(t, second.over), errBroken)
	receive(t, first.terms)
	first.answer <- nil
	want(t, "Run", receive(t, first.over), nil)
	s.cleaned()
}

func TestADeposedLeaderCampaignsAgain(t *testing.T) {
	s := inParallel(t)
	c := campaign(t.Context(), election.New(s.client().Mutex("e")))
	for _, answer := range []error{nil, holdfast.ErrLost, context.Canceled} {
		now := receive(t, c.terms)
		s.steal("e")
		want(t, "Extend of a term that is lost", now.lease.Extend(t.Context(), time.Hour), holdfast.ErrLost)
		receive(t, now.ctx.Done())
		want(t, "the cause of the term's end", context.Cause(now.ctx), holdfast.ErrLost)
		s.give("e")
		c.answer <- answer
	}
	receive(t, c.terms)
	c.answer <- context.Canceled // the term is not lost
	want(t, "Run", receive(t, c.over), context.Canceled)
}

func TestAnElectionEndsWithItsContext(t *testing.T) {
	s := inParallel(t)
	ctx, cancel := context.WithCancel(t.Context())
	e := election.New(s.client().Mutex("e"))
	leading := campaign(ctx, e)
	now := receive(t, leading.terms)
	waiting := campaign(ctx, election.New(s.client().Mutex("e")))
	awaitWaiters(t, e, 1)
	cancel()
	receive(t, now.ctx.Done())
	leading.answer <- nil
	equal(t, "Run of the leader", receive(t, leading.over), context.Canceled)
	equal(t, "Run of a candidate", receive(t, waiting.over), context.Canceled)
	s.cleaned()
}

// Watch ends with its context, and with its client, of which it tells.
func TestWatchEnds(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	for status, err := range election.New(c.Mutex("e")).Watch(ctx) {
		if status.Held() || err != nil {
			t.Errorf("Watch yields %+v, %v", status, err)
		}
		seen++
		cancel()
	}
	equal(t, "how often Watch yields", seen, 1)
	var last error
	closed := make(chan error, 1)
	for _, err := range election.New(c.Mutex("e")).Watch(t.Context()) {
		if last = err; err != nil {
			break
		}
		go func() { closed <- c.Close(t.Context()) }()
	}
	want(t, "the last of Watch", last, holdfast.ErrClosed)
	want(t, "Close", receive(t, closed), nil)
}

// Readers share a fence, and so do an owner's leases: two of them would be two leaders with one fence.
func TestReadersAndOwnersCannotLead(t *testing.T) {
	t.Parallel()
	c := newSpace(t).client()
	for what, lock := range map[string]*holdfast.Lock{"readers": c.RWMutex("rw").Reader(), "an owner": c.OwnerMutex("o", "me")} {
		err := election.New(lock).Run(t.Context(), func(context.Context, *holdfast.Lease) error {
			t.Errorf("%s lead", what)
			return nil
		})
		want(t, what, err, holdfast.ErrInvalid)
	}
}
