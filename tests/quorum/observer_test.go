package quorum

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/recorder"
)

// A lock of a quorum is one acquire and one lease to observers, also if one of its nodes loses it.
func TestObservers(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		var r recorder.Recorder
		t.Cleanup(func() { r.Check(t) })
		other := s.quorum(10 * time.Second)
		s.observers = []*holdfast.Observer{r.Observer()}
		q := s.quorum(10 * time.Second)
		held := backend.Acquire(t, other.Mutex("q", holdfast.Identity("other")))
		if _, err := q.Mutex("q").TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
			t.Error(err)
		}
		leases := backend.Start(t, q.Mutex("q"))
		backend.Eventually(t, "the acquire waits", func() bool { return r.Latest(t).Queued != nil })
		backend.Release(t, held)
		lease := backend.Receive(t, leases)
		if err := lease.Extend(t.Context(), age); err != nil {
			t.Error(err)
		}
		backend.Release(t, lease)
		err := election.New(q.Mutex("q")).Run(t.Context(), func(_ context.Context, term *holdfast.Lease) error { return nil })
		if err != nil {
			t.Error(err)
		}

		all := r.Acquires()
		if len(all) != 3 {
			t.Fatalf("%d acquires were observed", len(all))
		}
		if a := all[0]; !a.Start.Try || a.Start.Kind != holdfast.KindQuorum || !errors.Is(a.End.Err, holdfast.ErrHeld) || a.End.Holder.Identity != "other" {
			t.Errorf("of the first, told was %+v, %+v", a.Start, *a.End)
		}
		if a := all[1]; a.Start.Try || a.Queued.Holder.Identity != "other" || a.End.Err != nil || a.End.Fence != lease.Fence() || a.Last == nil || a.Lost || a.Last.Kind != holdfast.KindQuorum {
			t.Errorf("of the second, told was %v", a.Events)
		} else if !slices.Contains(a.Events, "Renewed") {
			t.Errorf("the extension was not told: %v", a.Events)
		}
		if a := all[2]; a.Start.Kind != holdfast.KindElection || a.Last == nil {
			t.Errorf("of the third, told was %+v, %v", a.Start, a.Events)
		}
	})
}

// The observers of the first client are told of renewals on all nodes, and of a lease that expires after the clients were
// closed, even if the first node has no part in it.
func TestObserversWithoutTheFirstNode(t *testing.T) {
	t.Parallel()
	each(t, 3, term, func(t *testing.T, s *site) {
		var r recorder.Recorder
		t.Cleanup(func() { r.Check(t) })
		s.observers = []*holdfast.Observer{r.Observer()}
		q := s.quorum(time.Second)
		s.nodes[0].Kill()
		lease := backend.Acquire(t, q.Mutex("q", holdfast.NoRenew()))
		if err := lease.Extend(t.Context(), term); err != nil {
			t.Error(err)
		}
		backend.Eventually(t, "a renewal", func() bool { return slices.Contains(r.Latest(t).Events, "Renewed") })
		for _, c := range s.clients {
			go func() { _ = c.Close(context.Background()) }()
		}
		<-lease.Done()
		backend.Eventually(t, "the end", func() bool { return r.Latest(t).Last != nil })
		if a := r.Latest(t); !a.Lost {
			t.Errorf("told was %v", a.Events)
		}
	})
}
