package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// Fault: A master's replicas have left it, perhaps for another master. With min-replicas-to-write it grants nothing
// that they would miss.
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

// term is longer than a test may take: a waiter that waits for a lease to expire fails.
const term = 2 * time.Minute

// queue is a lock that one client holds, and another waits for in the queue.
type queue struct {
	t     *testing.T
	l     *holdfast.Lock
	lease *holdfast.Lease
	next  <-chan *holdfast.Lease
}

func newQueue(t *testing.T, open opener, name string) *queue {
	t.Helper()
	return newQueueOf(t, open, backend.Alike(func(c *holdfast.Client) *holdfast.Lock { return c.Mutex(name, holdfast.TTL(term)) }))
}

func newQueueOf(t *testing.T, open opener, pair backend.Pair) *queue {
	t.Helper()
	client := open.client(t, nil)
	q := &queue{t: t, l: pair.Seen(client)}
	q.lease = backend.Acquire(t, pair.Held(client))
	q.next = backend.Start(t, pair.Wanted(open.client(t, nil)))
	backend.Waiters(t, q.l, 1)
	return q
}

// passes releases the lock and requires that the waiter gets it soon, not when a lease expires.
func (q *queue) passes(after string) {
	q.t.Helper()
	if err := q.lease.Err(); err != nil {
		q.t.Fatalf("after %s the lease is lost: %v", after, err)
	}
	begun := time.Now()
	released := make(chan error, 1)
	go func() { released <- q.lease.Release(q.t.Context()) }()
	next := soon(q.t, "the waiter is not served", q.next)
	if next == nil {
		q.t.Fatal("no lease")
	}
	took := time.Since(begun)
	q.t.Logf("after %s: from the release to the next holder %s", after, took.Round(time.Millisecond))
	// A silent server may use up the time for retries; then the release goes on in the background.
	switch err := <-released; {
	case err == nil:
	case kindOf(err) == holdfast.ErrUnavailable:
		q.t.Logf("after %s the release was done in the background: %v", after, err)
	default:
		q.t.Errorf("after %s: Release: %v", after, err)
	}
	if next.Fence() <= q.lease.Fence() {
		q.t.Errorf("after %s: fence %d follows %d", after, next.Fence(), q.lease.Fence())
	}
	backend.Release(q.t, next)
}

// soon waits for events that must come without a further look, which waiters take after 30 s or more, and
// before a lease ends: for 20 s plus twice as long as the process was held up.
func soon[T any](t *testing.T, otherwise string, all ...<-chan T) (got T) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		for _, from := range all {
			select {
			case got = <-from:
				return got
			default:
			}
		}
		if took := time.Since(begun); took > 20*time.Second && took > 20*time.Second+2*machine.HeldUp(begun) {
			t.Fatalf("%s within %s\n%s", otherwise, took.Round(time.Second), machine.Report(begun))
		}
	}
}

// Fault: The master behind Sentinel dies, is paused, or is replaced and goes on, with every kind of lock on it. Leases and tickets
// go on, no waiter stays deaf, the next leads, jobs stay done, and latches and barriers open.
func TestSentinelWaitersHearTheNextMaster(t *testing.T) {
	t.Parallel()
	for what, replace := range map[string]func(g *server.Sentinels, master *server.Server){
		"death":   func(_ *server.Sentinels, master *server.Server) { master.Kill() },
		"silence": func(_ *server.Sentinels, master *server.Server) { master.Pause() },
		// The old master remains a master, and accepts writes, like every old master until a sentinel tells it.
		"failover": func(g *server.Sentinels, master *server.Server) {
			expect.Err(t, "Do", expect.ErrOf(master.Do("ACL", "SETUSER", "default", "-replicaof", "-slaveof")), nil)
			g.Failover()
		},
	} {
		t.Run(what, func(t *testing.T) {
			each(t, func(t *testing.T, bin server.Binary) {
				g := server.StartSentinels(t, bin, 2, 3)
				p := newPlay(t, sentinelsOf(g))
				g.Servers[0].AwaitInStep()
				replace(g, g.Servers[0])
				g.NextMaster(g.Servers[0])
				if what == "failover" {
					// Until then it can be released there, which frees it nowhere else.
					awaitLeft(t, g.Servers[0])
				}
				p.passes("the master's " + what)
				if what == "failover" {
					expect.Equal(t, "the role of the old master, which is to be in the way", g.Servers[0].Info("replication")["role"], "master")
				}
			})
		})
	}
}

// awaitLeft waits until only sentinels and replicas are connected to a server.
func awaitLeft(t *testing.T, s *server.Server) {
	t.Helper()
	backend.Eventually(t, "clients leave the old master", func() bool {
		list := expect.Of(s.Do("CLIENT", "LIST")).OK(t)
		return !slices.ContainsFunc(strings.Split(strings.TrimSpace(list.(string)), "\n"), func(client string) bool {
			sentinel := strings.Contains(client, " name=sentinel-")
			replica := strings.Contains(client, " flags=S ")
			return !sentinel && !replica && !strings.Contains(client, " cmd=client|list ")
		})
	})
}
