package topology

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: Slots move, and a master is replaced by its replica, while each call acquires, renews or releases locks of many slots. No
// lease is lost, and no lock ever has two holders.
func TestLocksOfSeveralSlotsUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		all := names(200)
		began := time.Now()
		held := holdAll(t, clusterOf(c).client(t, nil), 100)
		ld := startRush(t, clusterOf(c), all, lossless)
		for i, name := range all[:5] {
			move(c, slotOf(name))
			move(c, slotOf(held[i].Name()))
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
		time.Sleep(time.Until(began.Add(2 * heldFor))) // some leases have been renewed only once
		for _, lease := range held {
			if err := lease.Err(); err != nil && !machine.Stalled(began) {
				t.Error(err)
			}
			deadline := lease.Deadline()
			got, err := backend.HolderOf(t.Context(), ld.client.Mutex(lease.Name()))
			if ahead := time.Until(deadline) - got.TTL; ahead > 0 && lease.Err() == nil {
				t.Errorf("%s is held for %s after the server lets it go: %+v, %v", lease.Name(), ahead, got, err)
			}
			backend.ReleaseSince(t, began, lease)
		}
	})
}

// heldFor is the TTL of leases that are renewed during a test.
const heldFor = 6 * time.Second

// holdAll acquires n locks of many slots at once, and keeps them.
func holdAll(t *testing.T, client *holdfast.Client, n int) []*holdfast.Lease {
	t.Helper()
	leases := make([]*holdfast.Lease, n)
	var acquired sync.WaitGroup
	for i := range leases {
		acquired.Go(func() {
			lease, err := client.Mutex("held-"+strconv.Itoa(i), holdfast.TTL(heldFor)).Acquire(t.Context())
			if err != nil {
				t.Error(err)
			}
			leases[i] = lease
		})
	}
	acquired.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return leases
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

// Fault: A master of a Cluster is killed and restarts from its append-only file, after locks of several slots were acquired in one
// call. None is lost.
func TestLocksOfSeveralSlotsAreInTheAppendOnlyFile(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := &server.Cluster{Nodes: server.StartCluster(t, bin, 1, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"))}
		client := clusterOf(c).client(t, nil)
		all := names(100)
		leases := make([]*holdfast.Lease, len(all))
		acquire := func() {
			var acquired sync.WaitGroup
			for i, name := range all {
				acquired.Go(func() {
					lease, err := client.Mutex(name, holdfast.TTL(term), holdfast.NoRenew()).Acquire(t.Context())
					if err != nil {
						t.Error(err)
					}
					leases[i] = lease
				})
			}
			acquired.Wait()
			if t.Failed() {
				t.FailNow()
			}
		}
		acquire() // now the client knows the master
		for _, lease := range leases {
			backend.Release(t, lease)
		}
		acquire()
		c.Nodes[0].Kill()
		c.Nodes[0].Restart()
		backend.Eventually(t, "the master serves no locks", func() bool {
			_, err := backend.HolderOf(t.Context(), client.Mutex(all[0]))
			return !errors.Is(err, holdfast.ErrUnavailable)
		})
		for i, name := range all {
			if got, err := backend.HolderOf(t.Context(), client.Mutex(name)); err != nil || got.Fence != leases[i].Fence() {
				t.Errorf("%s: the server has %+v, %v; the lease %d", name, got, err, leases[i].Fence())
			}
			backend.Release(t, leases[i])
		}
	})
}
