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

// Fault: Slots move, and a master is replaced by its replica, while locks of many slots are acquired, renewed and released. No
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

// Locks of several slots share the way to their master. One whose slot moves does not hold up the others.
func TestLocksOfSeveralSlotsGoOutTogether(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		client := clusterOf(c).client(t, nil)
		all := names(400)
		// together acquires or releases all locks at once.
		leases, acquired := make([]*holdfast.Lease, len(all)), atomic.Int64{}
		together := func(do func(i int) error) {
			t.Helper()
			errs := make(chan error, len(all))
			for i := range all {
				go func() { errs <- do(i) }()
			}
			for range all {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			if t.Failed() {
				t.FailNow()
			}
		}
		acquire := func(i int) (err error) {
			leases[i], err = client.Mutex(all[i], holdfast.TTL(term)).Acquire(t.Context())
			acquired.Add(1)
			return err
		}
		release := func(i int) error { return leases[i].Release(t.Context()) }
		together(acquire) // now the client knows the masters
		together(release)
		together(acquire)
		fences := make([]uint64, len(all))
		for i, lease := range leases {
			fences[i] = lease.Fence()
			got, err := backend.HolderOf(t.Context(), client.Mutex(all[i]))
			if err != nil || got.Owner != lease.Owner() || got.Fence != lease.Fence() && got.Fence != 0 {
				t.Fatalf("%s: the server has %+v, %v; the lease %d", all[i], got, err, lease.Fence())
			}
		}
		together(release)

		m := c.StartMove(slotOf(all[0]), otherMaster(c, slotOf(all[0])))
		acquired.Store(0)
		done := make(chan struct{})
		go func() {
			defer close(done)
			together(acquire)
		}()
		backend.Eventually(t, "a slot that moves holds up the locks of others", func() bool { return acquired.Load() == int64(len(all)-1) })
		m.Finish()
		<-done
		if t.Failed() {
			t.FailNow()
		}
		for i, lease := range leases {
			if lease != nil && lease.Fence() <= fences[i] {
				t.Errorf("%s: fence %d follows %d", all[i], lease.Fence(), fences[i])
			}
		}
		together(release)
	})
}

// Fault: A master of a Cluster is killed and restarts from its append-only file, after locks of several slots were acquired at
// once. None is lost.
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
		grants := make([]string, len(all))
		for i, name := range all {
			got, err := backend.HolderOf(t.Context(), client.Mutex(name))
			if err != nil {
				t.Fatal(err)
			}
			grants[i] = got.Grant
		}
		c.Nodes[0].Kill()
		c.Nodes[0].Restart()
		backend.Eventually(t, "the master serves no locks", func() bool {
			_, err := backend.HolderOf(t.Context(), client.Mutex(all[0]))
			return !errors.Is(err, holdfast.ErrUnavailable)
		})
		for i, name := range all {
			if got, err := backend.HolderOf(t.Context(), client.Mutex(name)); err != nil || got.Grant != grants[i] {
				t.Errorf("%s: the server has %+v, %v; it was %s", name, got, err, grants[i])
			}
			backend.Release(t, leases[i])
		}
	})
}
