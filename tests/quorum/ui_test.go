package quorum

import (
	"net/http"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/pages"
)

// An operator sees what a majority has granted, and breaks it. Without a majority the pages say so, and nothing is broken.
func TestTheInspectorsPagesOfAQuorum(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		inspector := inspect.NewQuorum(s.quorum())
		in := pages.Serve(t, inspector)
		list, page := in.List(), in.Lock("a")
		lease, kept := acquire(t, s.quorum().Mutex("a", holdfast.Identity("worker"))), acquire(t, s.quorum().Mutex("b", holdfast.Identity("worker")))
		agree(t, lease, 3)
		agree(t, kept, 3)
		// The page may show a round before it, in which some nodes were too slow.
		status, err := inspector.Get(t.Context(), "a")
		if err != nil || !status.Held() {
			t.Fatalf("Get: %+v, %v", status, err)
		}
		grant := status.Holders[0].Grant
		page.Until("the holder is seen", func(l pages.Lock) bool {
			return l.Error == "" && l.Key == "holdfast:{a}" && len(l.Holders) == 1 && l.Holders[0].Owner == "worker" && l.Holders[0].Grant == grant
		})
		// shows asks for locks with their owners, as "name owner". Each has a grant id.
		shows := func(want ...string) func(pages.List) bool {
			return func(l pages.List) bool {
				for _, r := range l.Locks {
					if r.Kind != "mutex" || r.Grant == "" || !slices.Contains(want, r.Name+" "+r.Owner) {
						return false
					}
				}
				return len(l.Locks) == len(want) && l.Error == ""
			}
		}
		list.Until("what a majority holds is listed", shows("a worker", "b worker"))
		if a := in.Order("revoke", "a", grant, "a deployment"); a.Code != http.StatusOK || a.Warning != "" {
			t.Fatalf("Revoke: %+v", a)
		}
		backend.Told(t, "the holder is asked to let go", lease.Revoked())
		next := backend.Start(t, s.quorum().Mutex("a", holdfast.Identity("next")))
		if a := in.Order("break", "a", grant, "it hangs"); a.Code != http.StatusOK || a.Fence == "" || a.Warning != "" {
			t.Fatalf("Break: %+v", a)
		}
		backend.Receive(t, next)
		page.Until("the waiter has it, and why", func(l pages.Lock) bool {
			return len(l.Holders) == 1 && l.Holders[0].Owner == "next" && l.IsBroken("it hangs")
		})
		list.Until("it is listed with its new holder", shows("a next", "b worker"))
		if testing.Short() { // each look would wait for nodes that are down
			return
		}
		s.nodes[1].Kill()
		s.nodes[2].Kill()
		list.Until("the list says that it is out of date", func(l pages.List) bool { return l.Why == "silent" && len(l.Locks) == 2 })
		page.Until("the page says so", func(l pages.Lock) bool { return l.Why == "silent" })
		for _, verb := range []string{"break", "revoke"} {
			if a := in.Order(verb, "b", grant, "no majority"); a.Code != http.StatusBadGateway || a.Error == "" {
				t.Errorf("%s without a majority: %+v", verb, a)
			}
		}
	})
}
