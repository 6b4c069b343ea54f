package topology

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

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
