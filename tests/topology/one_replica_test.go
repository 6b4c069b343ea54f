package topology

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A master with one replica dies and comes back as the replica of the new master, which dies, too. A lease whose TTL is
// 1.5 × (down-after-milliseconds + 5 s) outlasts both failovers: each new master grants locks within 5 s after sentinels consider
// the old one down.
func TestALeaseOutlastsFailoversWithOneReplica(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		g := server.StartSentinels(t, bin, 1, 3)
		open := sentinelsOf(g)
		// unit is down-after-milliseconds, and also how long a takeover may take: both are 5 s in the guide's recipe.
		machine.Unhurried(t, 5*time.Second, func(unit time.Duration) error {
			for _, w := range g.Watchers {
				if _, err := w.Do("SENTINEL", "SET", g.Name, "down-after-milliseconds", unit.Milliseconds()); err != nil {
					return err
				}
			}
			holder, other := open.client(t, nil), open.client(t, &holdfast.Config{RetryTimeout: 100 * time.Millisecond})
			name := fmt.Sprint("a", unit)
			lease := backend.Acquire(t, holder.Mutex(name, holdfast.TTL(3*unit)))
			master := g.Servers[0]
			if g.Servers[0].Info("replication")["role"] != "master" {
				master = g.Servers[1]
			}
			for range 2 {
				master.AwaitInStep()
				began := time.Now()
				master.Kill()
				backend.Eventually(t, "the next master grants locks", func() bool {
					probe, err := other.Mutex("probe").TryAcquire(t.Context())
					return err == nil && probe.Release(t.Context()) == nil
				})
				took := time.Since(began)
				t.Logf("locks are granted %s after the master died, with down-after-milliseconds %d", took.Round(10*time.Millisecond), unit.Milliseconds())
				_, held := other.Mutex(name).TryAcquire(t.Context())
				old := master
				master = g.NextMaster(old)
				old.Restart()
				began = time.Now()
				g.AwaitReplica(old)
				t.Logf("the old master is a replica in step %s after its restart", time.Since(began).Round(10*time.Millisecond))
				// Only now, since another try needs both servers.
				switch err := lease.Err(); {
				case took > 2*unit:
					return fmt.Errorf("locks are granted only %s after the master died", took)
				case !errors.Is(held, holdfast.ErrHeld):
					return fmt.Errorf("another client acquires the lock: %v", held)
				case err != nil:
					return fmt.Errorf("the lease did not outlast the failover: %w", err)
				}
			}
			return lease.Release(t.Context())
		})
	})
}
