package topology

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A slot moves with leases that replicas, or disks, must confirm. They are renewed and confirmed on the node
// that has their keys.
func TestConfirmedLeasesOutliveASlotOnTheMove(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		confirmed := map[string]holdfast.Durability{"by replicas": holdfast.Durability{Replicas: 1, Timeout: 5 * time.Second}}
		if bin.AtLeast(7, 2) {
			for _, s := range c.Masters() {
				for _, set := range [][]any{{"CONFIG", "SET", "appendonly", "yes"}, {"CONFIG", "SET", "appendfsync", "always"}} {
					expect.OK(t, expect.ErrOf(s.Do(set...)))
				}
			}
			confirmed["by the master's disk"] = holdfast.Durability{Fsync: true}
		}
		client := clusterOf(c).client(t, &holdfast.Config{CommandTimeout: 10 * time.Second, RetryTimeout: 10 * time.Second})
		for what, opt := range confirmed {
			name := "confirmed " + what
			locks := map[string]*holdfast.Lock{
				"mutex":     client.Mutex("{"+name+"}/m", holdfast.TTL(time.Minute), opt),
				"semaphore": client.Semaphore("{"+name+"}/s", 2, holdfast.TTL(time.Minute), opt).Permits(1),
			}
			leases := map[string]*holdfast.Lease{}
			for kind, l := range locks {
				leases[kind] = backend.Acquire(t, l)
			}
			slot := slotOf("{" + name + "}")
			m := c.StartMove(slot, otherMaster(c, slot))
			for len(m.Keys(10)) > 0 {
			}
			for kind, l := range leases {
				before := l.Deadline()
				if err := l.Extend(t.Context(), time.Hour); err != nil || l.Deadline().Sub(before) < 30*time.Minute {
					t.Errorf("Extend of a %s, confirmed %s: %v; the deadline moved by %s", kind, what, err, l.Deadline().Sub(before))
				}
			}
			m.Finish()
			for kind, l := range leases {
				backend.Release(t, l)
				backend.Release(t, backend.Acquire(t, locks[kind]))
			}
		}
	})
}
