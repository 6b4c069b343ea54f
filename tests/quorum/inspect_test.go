package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/recorder"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// The list has what a majority holds, whichever nodes are down, and nothing else.
func TestInspectorListsWhatAMajoritySays(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		q := s.quorum()
		var leases []*holdfast.Lease
		for _, name := range []string{"a", "b", "other"} {
			leases = append(leases, acquire(t, q.Mutex(name, holdfast.Identity("me"))))
		}
		put := func(name, owner string, nodes ...*server.Server) {
			for _, node := range nodes {
				s.do(node, "SET", "holdfast:{"+name+"}", `hf2:AAAAAAAAAAAAAAAAAAAAAA:9:1700000000000:0:{"o":"`+owner+`"}`, "PX", "3600000")
			}
		}
		put("alone", "ghost", s.nodes[0])
		put("most", "me", s.nodes[1:]...) // the first node does not have what a majority has
		wants := func(pattern string, want ...string) {
			t.Helper()
			got := map[string]bool{}
			for st, err := range inspect.NewQuorum(s.quorum()).List(t.Context(), pattern) {
				expect.OK(t, err)
				if h, held := st.Holder(); !held || h.Identity != "me" || got[st.Name] || st.Kind != holdfast.KindMutex {
					t.Errorf("listed: %+v", st)
				}
				got[st.Name] = true
			}
			expect.Same(t, fmt.Sprintf("%q lists", pattern), slices.Sorted(maps.Keys(got)), want)
		}
		wants("", "a", "b", "most", "other")
		wants("?", "a", "b")
		wants("a", "a")
		wants("most", "most")
		wants("alone")
		in := inspect.NewQuorum(q)
		if st, err := in.Get(t.Context(), "a"); err != nil || len(st.Holders) != 1 || st.Holders[0].Identity != "me" {
			t.Errorf("Get: %+v, %v", st, err)
		}
		if st, err := in.Get(t.Context(), "alone"); err != nil || st.Held() || st.Kind != "" {
			t.Errorf("Get of what one node has: %+v, %v", st, err)
		}
		if testing.Short() { // each look would wait for nodes that are down
			return
		}
		for _, l := range leases {
			agree(t, l, 3)
		}
		s.nodes[1].Kill()
		got := map[string]error{}
		for st, err := range inspect.NewQuorum(s.quorum()).List(t.Context(), "") {
			got[st.Name] = err
		}
		// Whether a majority has this one, the node that is down would have to say.
		expect.ErrSays(t, "what the node that is down may have", got["alone"], holdfast.ErrUnavailable, "it names ghost as the holder, and too few others do")
		for _, name := range []string{"a", "b", "other"} {
			if err, listed := got[name]; !listed || err != nil {
				t.Errorf("%s: %v, %v", name, listed, err)
			}
		}
		// last returns the error with which a list of a pattern ends.
		last := func(pattern string) (last error) {
			for _, err := range inspect.NewQuorum(s.quorum()).List(t.Context(), pattern) {
				last = err
			}
			return last
		}
		expect.Err(t, "what the nodes that are left agree on", last("a"), nil)
		expect.Err(t, "what the node that is down may have, by its name", last("alone"), holdfast.ErrUnavailable)
		s.nodes[2].Kill()
		for _, pattern := range []string{"", "a"} {
			var few *quorum.Error
			if err := last(pattern); !errors.As(err, &few) || !errors.Is(err, holdfast.ErrUnavailable) || few.Need != 2 {
				t.Errorf("without a majority, %q: %v", pattern, err)
			}
		}
	})
}

// What a majority has granted is taken from its holder, which is told, and is on record once. Some node may be down.
func TestBreakOnAQuorum(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		q, other := s.quorum(), s.quorum()
		lease := acquire(t, q.Mutex("a", holdfast.Identity("hung")))
		agree(t, lease, 3)
		next := make(chan *holdfast.Lease, 1)
		go func() {
			l, err := other.Mutex("a", holdfast.Identity("next")).Acquire(t.Context())
			if err != nil {
				t.Error(err)
			}
			next <- l
		}()
		s.heard()
		if !testing.Short() { // each call would wait for it
			s.nodes[2].Kill()
		}
		in := inspect.NewQuorum(s.quorum())
		seen, err := in.Get(t.Context(), "a")
		if err != nil || len(seen.Holders) != 1 {
			t.Fatalf("Get: %+v, %v", seen, err)
		}
		holder := seen.Holders[0]
		expect.Err(t, "Break of another grant", expect.ErrOf(in.Break(t.Context(), holdfast.Holder{Name: "a", Grant: "k3v9x2ab"}, "")), inspect.ErrChanged)
		expect.Err(t, "Break of no grant", expect.ErrOf(in.Break(t.Context(), holdfast.Holder{Name: "a"}, "")), holdfast.ErrInvalid)
		expect.OK(t, in.Revoke(t.Context(), holder, "test"))
		backend.Told(t, "the holder is asked", lease.Revoked())
		broken, err := in.Break(t.Context(), holder, "it hung")
		if err != nil || broken.Holder.Identity != "hung" || broken.Holder.Grant != holder.Grant || broken.Fence <= broken.Holder.Fence {
			t.Fatalf("Break: %+v, %v", broken, err)
		}
		backend.Told(t, "the holder is told of the loss", lease.Done())
		var lost *holdfast.LostError
		if !errors.As(lease.Err(), &lost) || lost.Reason != holdfast.LossBroken || lost.By != broken.By || lost.Note != "it hung" {
			t.Errorf("the holder: %v", lease.Err())
		}
		if l := <-next; l != nil {
			_ = l.Release(t.Context())
		}
		var onRecord []string
		for b, err := range in.History(t.Context()) {
			onRecord = append(onRecord, fmt.Sprint(b.Name, " ", b.Holder.Identity, " ", b.Reason, " ", b.Revoked, " ", err))
		}
		expect.Same(t, "the record", onRecord, []string{"a hung it hung false <nil>", "a  test true <nil>"})
		for _, node := range s.nodes[:2] {
			entry, err := node.Do("ZRANGE", "holdfast:journal", "-1", "-1")
			if want := fmt.Sprintf(`{"b":%q,`, broken.By); err != nil || !strings.Contains(fmt.Sprint(entry), want) {
				t.Errorf("a node has on record %q, %v; want %s", entry, err, want)
			}
		}
		for _, node := range s.nodes[:2] {
			s.do(node, "SET", "free", "no lock of a quorum, though it has the name as its exact key")
		}
		expect.Err(t, "Break of a free lock", expect.ErrOf(in.Break(t.Context(), holdfast.Holder{Name: "free", Grant: "k3v9x2ab"}, "")), holdfast.ErrNotHeld)
	})
}

// A node on which an operator has broken the lock does not get it back, though a majority goes on.
func TestABrokenVoteIsNotCastAgain(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		lease := acquire(t, s.quorum().Mutex("a"))
		agree(t, lease, 3)
		s.heard()
		in := inspect.New(backend.Open(t, &holdfast.Config{Strict: true, MaxTTL: age, TTL: age}, &redis.Options{Addr: s.nodes[0].Addr()}))
		st := expect.Of(in.Get(t.Context(), "a")).OK(t)
		expect.OK(t, expect.ErrOf(in.Break(t.Context(), st.Holders[0], "")))
		agree(t, lease, 2)
		time.Sleep(2 * time.Second) // a vote would take some ms
		expect.Equal(t, "nodes that have the lock after it was broken on one", len(nodesOf(lease)), 2)
		expect.Err(t, "the lease, which a majority still has", lease.Err(), nil)
		_ = lease.Release(t.Context())
	})
}

// A lock of a quorum is one acquire and one lease to observers, also if one of its nodes loses it.
func TestObservers(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		var r recorder.Recorder
		t.Cleanup(func() { r.Check(t) })
		other := s.quorum(10 * time.Second)
		s.observers = []*holdfast.Observer{r.Observer()}
		q := s.quorum(10 * time.Second)
		held := backend.Acquire(t, other.Mutex("q", holdfast.Identity("other")))
		expect.Err(t, "TryAcquire", expect.ErrOf(q.Mutex("q").TryAcquire(t.Context())), holdfast.ErrHeld)
		leases := backend.Start(t, q.Mutex("q"))
		backend.Eventually(t, "the acquire waits", func() bool { return r.Latest(t).Queued != nil })
		backend.Release(t, held)
		lease := backend.Receive(t, leases)
		expect.Err(t, "Extend", lease.Extend(t.Context(), age), nil)
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
	each(t, 3, term, func(t *testing.T, s *site) {
		var r recorder.Recorder
		t.Cleanup(func() { r.Check(t) })
		s.observers = []*holdfast.Observer{r.Observer()}
		q := s.quorum(time.Second)
		s.nodes[0].Kill()
		lease := backend.Acquire(t, q.Mutex("q", holdfast.NoRenew()))
		expect.Err(t, "Extend", lease.Extend(t.Context(), term), nil)
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

// An acquire that would wait for the caller's own lease of the quorum's lock fails at once; so does one of the lock that a
// node grants by itself.
func TestAnAcquireWithinItsOwnLeaseFailsAtOnce(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		const patience = 10 * time.Second
		q := s.quorum(patience)
		l, other := q.Mutex("q"), s.quorum(patience).Mutex("q")
		lease := acquire(t, l)
		ctx := lease.Context(t.Context())
		for what, try := range map[string]func() error{
			"Acquire":                     func() error { _, err := l.Acquire(ctx); return err },
			"Acquire, with a limit":       func() error { _, err := q.Mutex("q", holdfast.Wait(time.Minute)).Acquire(ctx); return err },
			"TryAcquire":                  func() error { _, err := l.TryAcquire(ctx); return err },
			"an election's":               func() error { return election.New(q.Mutex("q")).Run(ctx, nil) },
			"Do":                          func() error { return l.Do(ctx, nil) },
			"Acquire, by another lease's": func() error { _, err := l.Acquire(lease.Context(ctx)); return err },
		} {
			expect.ErrSays(t, what, try(), holdfast.ErrDeadlock, `"q"`)
		}
		expect.Err(t, "another quorum's", expect.ErrOf(other.TryAcquire(ctx)), holdfast.ErrHeld)
		expect.OK(t, lease.Release(t.Context()))
		next := expect.Of(l.Acquire(context.WithoutCancel(ctx))).OK(t)
		_ = next.Release(t.Context())
	})
}
