package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// What a majority has granted is taken from its holder, which is told, and is on record once. Some node may be down.
func TestBreakOnAQuorum(t *testing.T) {
	t.Parallel()
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
		if _, err := in.Break(t.Context(), holdfast.Holder{Name: "a", Grant: "k3v9x2ab"}, ""); !errors.Is(err, inspect.ErrChanged) {
			t.Errorf("Break of another grant: %v", err)
		}
		if _, err := in.Break(t.Context(), holdfast.Holder{Name: "a"}, ""); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("Break of no grant: %v", err)
		}
		if err := in.Revoke(t.Context(), holder, "test"); err != nil {
			t.Fatal(err)
		}
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
		if want := []string{"a hung it hung false <nil>", "a  test true <nil>"}; !slices.Equal(onRecord, want) {
			t.Errorf("%q are on record, want %q", onRecord, want)
		}
		for _, node := range s.nodes[:2] {
			entry, err := node.Do("ZRANGE", "holdfast:journal", "-1", "-1")
			if want := fmt.Sprintf(`{"b":%q,`, broken.By); err != nil || !strings.Contains(fmt.Sprint(entry), want) {
				t.Errorf("a node has on record %q, %v; want %s", entry, err, want)
			}
		}
		for _, node := range s.nodes[:2] {
			s.do(node, "SET", "free", "no lock of a quorum, though it has the name as its exact key")
		}
		if _, err := in.Break(t.Context(), holdfast.Holder{Name: "free", Grant: "k3v9x2ab"}, ""); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("Break of a free lock: %v", err)
		}
	})
}

// A node on which an operator has broken the lock does not get it back, though a majority goes on.
func TestABrokenVoteIsNotCastAgain(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		lease := acquire(t, s.quorum().Mutex("a"))
		agree(t, lease, 3)
		s.heard()
		rdb := redis.NewClient(&redis.Options{Addr: s.nodes[0].Addr()})
		defer rdb.Close()
		node, err := holdfastgoredis.New(rdb, &holdfast.Config{Strict: true, MaxTTL: age, TTL: age})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close(t.Context())
		in := inspect.New(node)
		st, err := in.Get(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Break(t.Context(), st.Holders[0], ""); err != nil {
			t.Fatal(err)
		}
		agree(t, lease, 2)
		time.Sleep(2 * time.Second) // a vote would take some ms
		if nodes := nodesOf(lease); len(nodes) != 2 {
			t.Errorf("%q have the lock after it was broken on one", nodes)
		}
		if err := lease.Err(); err != nil {
			t.Errorf("the lease, which a majority still has: %v", err)
		}
		_ = lease.Release(t.Context())
	})
}
