package quorum

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/pages"
)

// An operator sees what a majority has granted, and breaks it, while a node is down. Without a majority the pages say so, and
// nothing is broken.
func TestTheInspectorsPagesOfAQuorum(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		in := pages.Serve(t, inspect.NewQuorum(s.quorum()))
		list := in.List()
		list.Until("no lock is listed", func(l pages.List) bool { return l.Has() })
		q := s.quorum()
		lease, kept := acquire(t, q.Mutex("a", holdfast.Owner("worker"))), acquire(t, q.Mutex("b", holdfast.Owner("worker")))
		agree(t, lease, 3)
		agree(t, kept, 3)
		if _, err := s.nodes[0].Do("SET", "holdfast:{alone}", `hf2:AAAAAAAAAAAAAAAAAAAAAA:9:1700000000000:0:{"o":"ghost"}`, "PX", "3600000"); err != nil {
			t.Fatal(err)
		}
		page := in.Lock("a")
		grant := ""
		page.Until("the holder is seen", func(l pages.Lock) bool {
			if l.Error == "" && l.Key == "holdfast:{a}" && len(l.Holders) == 1 && l.Holders[0].Owner == "worker" {
				grant = l.Holders[0].Grant
			}
			return grant != ""
		})
		// shows asks for locks with their owners, as "name owner". Each has a grant id.
		shows := func(want ...string) func(pages.List) bool {
			return func(l pages.List) bool {
				for _, r := range l.Locks {
					if r.Kind != "mutex" || r.Grant == "" || !slices.Contains(want, r.Name+" "+r.Owner) {
						return false
					}
				}
				return len(l.Locks) == len(want) && l.State.Error == ""
			}
		}
		list.Until("what a majority holds is listed", shows("a worker", "b worker"))

		if !testing.Short() { // each call would wait for it
			s.nodes[2].Kill()
		}
		next := backend.Start(t, s.quorum().Mutex("a", holdfast.Owner("next")))
		if a := in.Order("break", "a", "k3v9x2ab", "another"); a.Code != http.StatusConflict || lease.Err() != nil {
			t.Errorf("Break of another grant: %+v; the lease: %v", a, lease.Err())
		}
		if a := in.Order("revoke", "a", "k3v9x2ab", "another"); a.Code != http.StatusConflict {
			t.Errorf("Revoke of another grant: %+v", a)
		}
		isAsked := func(l *holdfast.Lease) bool {
			select {
			case <-l.Revoked():
				return true
			default:
				return false
			}
		}
		if isAsked(lease) {
			t.Error("the holder is asked by orders about another grant")
		}
		if a := in.Order("revoke", "a", grant, "a deployment"); a.Code != http.StatusOK || a.Warning != "" {
			t.Fatalf("Revoke: %+v", a)
		}
		backend.Told(t, "the holder is asked to let go", lease.Revoked())
		if err := lease.Err(); err != nil {
			t.Errorf("the lease of a holder that was asked to let go: %v", err)
		}
		if a := in.Order("break", "a", grant, "it hangs"); a.Code != http.StatusOK || a.Fence == "" || a.Warning != "" {
			t.Fatalf("Break: %+v", a)
		}
		got := backend.Receive(t, next)
		if got.Fence() <= lease.Fence() {
			t.Errorf("fence %d follows %d", got.Fence(), lease.Fence())
		}
		page.Until("the waiter has it, and why", func(l pages.Lock) bool {
			return len(l.Holders) == 1 && l.Holders[0].Owner == "next" && l.IsBroken("it hangs")
		})
		list.Until("it is listed with its new holder", shows("a next", "b worker"))

		if testing.Short() {
			return
		}
		s.nodes[1].Kill()
		list.Until("the list says that it is out of date", func(l pages.List) bool { return l.State.Why == "silent" && len(l.Locks) == 2 })
		page.Until("the page says so", func(l pages.Lock) bool { return l.Why == "silent" })
		if a := in.Order("break", "b", grant, "no majority"); a.Code != http.StatusBadGateway || a.Error == "" || errors.Is(kept.Err(), holdfast.ErrLost) {
			t.Errorf("Break without a majority: %+v; the lease: %v", a, kept.Err())
		}
		if a := in.Order("revoke", "b", grant, "no majority"); a.Code != http.StatusBadGateway || a.Error == "" || isAsked(kept) {
			t.Errorf("Revoke without a majority: %+v", a)
		}
	})
}
