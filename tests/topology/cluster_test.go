package topology

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A Cluster's master and its replica agree on a failover, or keys move, while locks of many slots are acquired, renewed
// and released. No lease is lost, and no lock ever has two holders.
func TestClusterKeepsLocksUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		slot := slotOf(hotName)
		began := time.Now()
		holder := clusterOf(c).client(t, nil)
		held := holdAll(t, holder, 100)
		ld := startLoad(t, clusterOf(c), lossless)
		master := c.Owner(slot)
		c.Failover(c.ReplicaOf(master))
		c.Owner(slot, master)
		ld.goesOn("a failover that was asked for")

		before, begun := rejected(c), time.Now()
		for _, name := range append(names(8), hotName, "long", held[0].Name(), held[1].Name()) {
			move(c, slotOf(name))
		}
		took, n := time.Since(begun), rejected(c)-before
		t.Logf("12 slots moved in %s; %d commands redirected, or refused for the time being", took.Round(time.Millisecond), n)
		if !calm(n, took) {
			t.Error("that is a storm")
		}
		ld.goesOn("the moves of slots")
		if bin.MovesAtomically() {
			for range 3 {
				c.MoveAtomically(slot, otherMaster(c, slot))
			}
			ld.goesOn("moves of a slot by the server")
		}
		ld.stopped()
		time.Sleep(time.Until(began.Add(2 * heldFor))) // some leases have been renewed only once
		for _, lease := range held {
			if err := lease.Err(); err != nil && !machine.Stalled(began) {
				t.Error(err)
			}
			deadline := lease.Deadline()
			got, err := backend.HolderOf(t.Context(), holder.Mutex(lease.Name()))
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
func holdAll(t *testing.T, client *holdfast.Client, n int) (leases []*holdfast.Lease) {
	t.Helper()
	var acquired []<-chan *holdfast.Lease
	for i := range n {
		acquired = append(acquired, backend.Start(t, client.Mutex(fmt.Sprint("held-", i), holdfast.TTL(heldFor))))
	}
	for _, one := range acquired {
		leases = append(leases, backend.Receive(t, one))
	}
	return leases
}

// Fault: A Cluster's master dies under load, and its replica takes over, perhaps without the last writes. Everybody
// goes on; overlaps are counted.
func TestClusterCrashUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		slot := slotOf(hotName)
		ld := startLoad(t, clusterOf(c), lossy)
		master := c.Owner(slot)
		reloads := func() (n int64) {
			for _, s := range c.Nodes {
				if s != master {
					n += s.CommandStats()["cluster|slots"]
				}
			}
			return n
		}
		before, begun := reloads(), time.Now()
		c.Patience(time.Second)
		master.Kill() // with writes that the replica does not have yet
		c.Owner(slot, master)
		c.Patience(30 * time.Second)
		ld.goesOn("the master's death")
		took, n := time.Since(begun), reloads()-before
		t.Logf("in %s clients have asked %d times who has which slot", took.Round(time.Millisecond), n)
		if !calm(n, took) {
			t.Error("that is a storm")
		}
		ld.stopped()
	})
}

// move moves a slot key by key, so slowly that the keys of a lock are on different nodes for a while, while
// locks are acquired and released.
func move(c *server.Cluster, slot int) {
	m := c.StartMove(slot, otherMaster(c, slot))
	for range 5 {
		m.Keys(1)
	}
	m.Finish()
}

// calm reports whether a load may send that many failing commands in that time: some tries of each goroutine at
// once, and a few each second.
func calm(n int64, d time.Duration) bool {
	return n < int64(loadClients*loadGoroutines*(40+20*d.Seconds()))
}
