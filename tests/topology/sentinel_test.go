package topology

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A master behind Sentinel dies, is paused or is replaced under load. There may be two holders at a time,
// which are counted; every waiter is served, holders are told, fences rise, and errors have their types.
func TestSentinelUnderLoad(t *testing.T) {
	t.Parallel()
	for what, replace := range map[string]func(g *server.Sentinels, master *server.Server){
		"killed":    func(_ *server.Sentinels, master *server.Server) { master.Kill() },
		"paused":    func(_ *server.Sentinels, master *server.Server) { master.Pause() },
		"asked for": func(g *server.Sentinels, _ *server.Server) { g.Failover() },
	} {
		t.Run(what, func(t *testing.T) {
			each(t, func(t *testing.T, bin server.Binary) {
				g := server.StartSentinels(t, bin, 2, 3)
				ld := startLoad(t, sentinelsOf(g), lossy)
				master := g.Servers[0]
				replace(g, master)
				g.NextMaster(master)
				ld.goesOn("the failover")
				if what == "paused" {
					master.Resume()
					g.AwaitReplica(master)
					ld.goesOn("the old master's return as a replica")
				}
				ld.stopped()
			})
		})
	}
}

// Fault: A master's replicas have left it, perhaps for another master. With min-replicas-to-write it grants nothing that they would miss.
func TestAMasterWithoutReplicasGrantsNothing(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		g := server.StartSentinels(t, bin, 2, 3, server.Conf("min-replicas-to-write", "1"), server.Conf("min-replicas-max-lag", "1"))
		client := sentinelsOf(g).client(t, nil)
		works := func() bool {
			lease, err := client.Mutex("a").TryAcquire(t.Context())
			return err == nil && lease.Release(t.Context()) == nil
		}
		backend.Eventually(t, "the replicas report", works)
		server.Forsake(g.Servers[0], g.Servers[1:]...)
		begun := time.Now()
		if lease, err := client.Mutex("a").TryAcquire(t.Context()); !backend.HasCode(err, "NOREPLICAS") {
			t.Errorf("TryAcquire: %v, %v", lease, err)
		}
		t.Logf("refused after %s", time.Since(begun).Round(time.Millisecond))
		for _, replica := range g.Servers[1:] {
			replica.Resume()
		}
		backend.Eventually(t, "the replicas are back", works)
	})
}

// Fault: One of three sentinels hangs, or has not heard of the failover, and the old master accepts writes. The
// client follows the other sentinels within 2 s.
func TestOneBadSentinelIsOutvoted(t *testing.T) {
	t.Parallel()
	for what, bad := range map[string]func(t *testing.T, g *server.Sentinels) (addr string){
		"hangs": func(_ *testing.T, g *server.Sentinels) string {
			g.Watchers[0].Pause()
			return g.Watchers[0].Addr()
		},
		"is stale": func(t *testing.T, g *server.Sentinels) string {
			return (&redistest.Sentinel{Masters: map[string]string{g.Name: g.Servers[0].Addr()}}).Listen(t)
		},
	} {
		t.Run(what, func(t *testing.T) {
			each(t, func(t *testing.T, bin server.Binary) {
				g := server.StartSentinels(t, bin, 2, 3)
				old := g.Servers[0]
				expect.OK(t, expect.ErrOf(old.Do("ACL", "SETUSER", "default", "-replicaof", "-slaveof")))
				var addrs []string
				client := func() *holdfast.Client { return sentinelsAt(g, addrs, nil).client(t, nil) }
				if what == "is stale" {
					addrs = append([]string{bad(t, g)}, g.Addrs()[1:]...)
				} else {
					addrs = g.Addrs()
				}
				first := client()
				backend.Release(t, backend.Acquire(t, first.Mutex("a")))
				q := newQueue(t, sentinelsAt(g, addrs, nil), "b")
				old.AwaitInStep()
				if what == "hangs" {
					bad(t, g)
				}
				g.Watchers = g.Watchers[1:]
				g.Failover()
				g.NextMaster(old)
				begun := time.Now()
				awaitLeft(t, old)
				// It takes up to a second, plus the time for dialling and asking.
				if took, bound := time.Since(begun), 5*time.Second; took > bound+2*machine.HeldUp(begun) {
					t.Errorf("clients are with the old master for %s after the failover\n%s", took, machine.Report(begun))
				}
				backend.Release(t, backend.Acquire(t, first.Mutex("a")))
				backend.Release(t, backend.Acquire(t, client().Mutex("a")))
				q.passes("the failover")
				awaitLeft(t, old)
			})
		})
	}
}

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
