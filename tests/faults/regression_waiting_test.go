package faults

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// still fails the test if the wait for a lease ends within d.
func still(t *testing.T, waiting <-chan *holdfast.Lease, d time.Duration) {
	t.Helper()
	select {
	case <-waiting:
		t.Fatal("the wait has ended")
	case <-time.After(d):
	}
}

// Fault: While a Cluster's slot moves, a script is refused if some of its keys are not on the node; the queue of a
// lock without waiters is such a key. Leases are renewed all the same.
func TestRenewalsInASlotOnTheMove(t *testing.T) {
	t.Parallel()
	nodes := server.StartCluster(t, server.One(t), 2)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := holdfastgoredis.New(rdb, &holdfast.Config{CommandTimeout: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	backend.CloseWith(t, c)
	const key = "holdfast:{a}"
	lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(9*time.Second)))
	survives := func(where string) {
		t.Helper()
		before := lease.Deadline()
		backend.Eventually(t, "it is renewed", func() bool { return lease.Err() != nil || lease.Deadline().After(before) })
		if err := lease.Err(); err != nil {
			t.Fatalf("%s: the lease ended: %v", where, err)
		}
	}

	slot := keys.Slot(key)
	slices.SortFunc(nodes, func(a, b *server.Server) int { // the node that has the key comes first
		return int(do(t, b, "CLUSTER", "COUNTKEYSINSLOT", slot).(int64) - do(t, a, "CLUSTER", "COUNTKEYSINSLOT", slot).(int64))
	})
	from, to := nodes[0], nodes[1]
	fromID, toID := do(t, from, "CLUSTER", "MYID"), do(t, to, "CLUSTER", "MYID")
	do(t, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	do(t, from, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	survives("before the key moves")
	host, port, _ := strings.Cut(to.Addr(), ":")
	do(t, from, "MIGRATE", host, port, "", 0, 5000, "KEYS", key, "holdfast:f{"+keys.Tag(slot)+"}")
	survives("when the key has moved")
	do(t, to, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	do(t, from, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	backend.Release(t, lease)
}
