package topology

import (
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: Slots move, and a master is replaced by its replica, while locks of many slots are acquired and released in common calls.
// No lease is lost, and no lock ever has two holders.
func TestLocksOfSeveralSlotsUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		all := names(200)
		ld := startRush(t, clusterOf(c), all, lossless)
		for _, name := range all[:5] {
			move(c, slotOf(name))
		}
		ld.goesOn("the moves of slots")
		if bin.MovesAtomically() {
			for _, name := range all[:3] {
				c.MoveAtomically(slotOf(name), otherMaster(c, slotOf(name)))
			}
			ld.goesOn("moves of slots by the server")
		}
		slot := slotOf(all[0])
		master := c.Owner(slot)
		c.Failover(c.ReplicaOf(master))
		c.Owner(slot, master)
		ld.goesOn("a failover that was asked for")
		ld.stopped()
	})
}

// Locks of several slots go to their master in common calls; those whose slots move are acquired by themselves,
// and the others go on together.
func TestLocksOfSeveralSlotsGoOutInOneCall(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		client := clusterOf(c).client(t, nil)
		all := names(400)
		calls := func() (n int64) {
			for _, s := range c.Nodes {
				n += s.CommandStats()["evalsha"]
			}
			return n
		}
		// together acquires or releases all locks at once, and returns how many scripts that took.
		leases, acquired := make([]*holdfast.Lease, len(all)), atomic.Int64{}
		together := func(do func(i int) error) int64 {
			t.Helper()
			before, errs := calls(), make(chan error, len(all))
			for i := range all {
				go func() { errs <- do(i) }()
			}
			for range all {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			return calls() - before
		}
		acquire := func(i int) (err error) {
			leases[i], err = client.Mutex(all[i], holdfast.TTL(term)).Acquire(t.Context())
			acquired.Add(1)
			return err
		}
		release := func(i int) error { return leases[i].Release(t.Context()) }
		together(acquire) // now the client knows the masters
		together(release)
		// How many go together depends on the machine. By themselves they would need as many calls as there are locks.
		apart := int64(len(all))
		if n := together(acquire); n >= apart {
			t.Errorf("%d locks are acquired by %d scripts", len(all), n)
		}
		fences := make([]uint64, len(all))
		for i, lease := range leases {
			fences[i] = lease.Fence()
			if got, err := backend.HolderOf(t.Context(), client.Mutex(all[i])); err != nil || got.Fence != lease.Fence() {
				t.Fatalf("%s: the server has %+v, %v; the lease %d", all[i], got, err, lease.Fence())
			}
		}
		if n := together(release); n >= apart {
			t.Errorf("%d locks are released by %d scripts", len(all), n)
		}

		m := c.StartMove(slotOf(all[0]), otherMaster(c, slotOf(all[0])))
		acquired.Store(0)
		done := make(chan int64)
		go func() { done <- together(acquire) }()
		backend.Eventually(t, "a slot that moves holds up the locks of others", func() bool { return acquired.Load() == int64(len(all)-1) })
		m.Finish()
		t.Logf("%d scripts while a slot moved", <-done)
		for i, lease := range leases {
			if lease != nil && lease.Fence() <= fences[i] {
				t.Errorf("%s: fence %d follows %d", all[i], lease.Fence(), fences[i])
			}
		}
		together(release)
	})
}
