package topology

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/pages"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// An operator sees the locks of all masters on one page, and breaks some of each.
func TestTheInspectorsPagesOfACluster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		open := clusterOf(c)
		look := inspect.New(open.client(t, &holdfast.Config{Owner: "operator"}))
		in := pages.Serve(t, look)
		list := in.List()
		list.Until("no lock is listed", func(l pages.List) bool { return l.Has() })

		worker, other := open.client(t, &holdfast.Config{Owner: "worker"}), open.client(t, &holdfast.Config{Owner: "other"})
		leases, byMaster := map[string]*holdfast.Lease{}, map[*server.Server][]string{}
		for _, name := range names(15) {
			leases[name] = backend.Acquire(t, worker.Mutex(name, holdfast.TTL(time.Hour)))
			master := c.Owner(slotOf(name))
			byMaster[master] = append(byMaster[master], name)
		}
		if len(byMaster) != 3 {
			t.Fatalf("%d masters have locks", len(byMaster))
		}
		rows := func() (all []pages.Row) {
			for name, lease := range leases {
				all = append(all, pages.Row{Name: name, Kind: "mutex", Owner: "worker", Grant: backend.Seen(t, look, name, lease.Fence()).Grant})
			}
			return all
		}
		list.Until("all locks are listed", func(l pages.List) bool { return l.Has(rows()...) })

		for _, mine := range byMaster {
			breaksOnThePage(t, in, look, worker, other, mine[0], leases[mine[0]])
			delete(leases, mine[0])
		}
		list.Until("the broken ones are listed no more", func(l pages.List) bool { return l.Has(rows()...) })

		slot := slotOf(byMaster[c.Masters()[0]][1])
		c.StartMove(slot, otherMaster(c, slot)).Finish()
		leases["later"] = backend.Acquire(t, worker.Mutex("later", holdfast.TTL(time.Hour)))
		list.Until("all are listed after a slot has moved", func(l pages.List) bool { return l.Has(rows()...) })
		for _, lease := range leases {
			backend.Release(t, lease)
		}
		list.Until("the list is empty again", func(l pages.List) bool { return l.Has() })
	})
}

// breaksOnThePage looks at the page of a lock that worker holds. There it asks worker to let go, and then breaks the lock; other,
// which waits, gets it.
func breaksOnThePage(t *testing.T, in *pages.Inspector, look *inspect.Inspector, worker, other *holdfast.Client, name string, lease *holdfast.Lease) {
	t.Helper()
	grant := backend.Seen(t, look, name, lease.Fence()).Grant
	page := in.Lock(name)
	page.Until("the holder is seen", func(l pages.Lock) bool {
		return l.Key == "holdfast:{"+name+"}" && l.Kind == "mutex" && l.IsHeldBy("worker", grant, fenceOf(lease))
	})
	next := backend.Start(t, other.Mutex(name, holdfast.TTL(time.Hour)))
	backend.Waiters(t, worker.Mutex(name), 1)
	page.Until("the waiter is seen", func(l pages.Lock) bool { return l.Waiting == 1 })

	if a := in.Order("break", name, "k3v9x2ab", "another"); a.Code != http.StatusConflict || a.Error == "" || lease.Err() != nil {
		t.Errorf("%s: Break of another grant: %+v; the lease: %v", name, a, lease.Err())
	}
	if a := in.Order("revoke", name, "k3v9x2ab", "another"); a.Code != http.StatusConflict || a.Error == "" {
		t.Errorf("%s: Revoke of another grant: %+v", name, a)
	}
	select {
	case <-lease.Revoked():
		t.Errorf("%s: the holder is asked by orders about another grant", name)
	default:
	}
	if a := in.Order("revoke", name, grant, "a deployment"); a.Code != http.StatusOK || a.Warning != "" {
		t.Fatalf("%s: Revoke: %+v", name, a)
	}
	backend.Told(t, "the holder is asked to let go", lease.Revoked())
	if err := lease.Err(); err != nil {
		t.Errorf("%s: the lease of a holder that was asked to let go: %v", name, err)
	}
	a := in.Order("break", name, grant, "it hangs")
	if fence, err := strconv.ParseUint(a.Fence, 10, 64); a.Code != http.StatusOK || a.Warning != "" || err != nil || fence <= lease.Fence() {
		t.Fatalf("%s: Break: %+v", name, a)
	}
	backend.Told(t, "the holder is told of the loss", lease.Done())
	var lost *holdfast.LostError
	if !errors.As(lease.Err(), &lost) || lost.Reason != holdfast.LossBroken || lost.By != "operator" || lost.Note != "it hangs" {
		t.Errorf("%s: the holder: %v", name, lease.Err())
	}
	got := backend.Receive(t, next)
	grant = backend.Seen(t, look, name, got.Fence()).Grant
	page.Until("the waiter has it, and why", func(l pages.Lock) bool {
		return l.Waiting == 0 && l.IsHeldBy("other", grant, fenceOf(got)) && l.IsBroken("it hangs")
	})
	backend.Release(t, got)
	page.Until("it is free", func(l pages.Lock) bool { return l.Error == "" && len(l.Holders) == 0 })
}

func fenceOf(l *holdfast.Lease) string { return strconv.FormatUint(l.Fence(), 10) }
