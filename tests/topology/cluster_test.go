package topology

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A Cluster's master and its replica agree on a failover, or keys move, under load. No lease is lost, and no
// lock ever has two holders.
func TestClusterKeepsLocksUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		slot := slotOf(hotName)
		ld := startLoad(t, clusterOf(c), names(8), lossless)
		master := c.Owner(slot)
		c.Failover(c.ReplicaOf(master))
		c.Owner(slot, master)
		ld.goesOn("a failover that was asked for")

		before, begun := rejected(c), time.Now()
		for _, name := range append(names(8), hotName, "long") {
			move(c, slotOf(name))
		}
		took, n := time.Since(begun), rejected(c)-before
		t.Logf("10 slots moved in %s; %d commands redirected, or refused for the time being", took.Round(time.Millisecond), n)
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
	})
}

// Fault: A Cluster's master dies under load, and its replica takes over, perhaps without the last writes. Everybody
// goes on; overlaps are counted.
func TestClusterCrashUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		slot := slotOf(hotName)
		ld := startLoad(t, clusterOf(c), names(8), lossy)
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
