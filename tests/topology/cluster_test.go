package topology

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
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

// Fault: In a Cluster each slot has its own fence counter, and the masters' clocks differ. A lease of several names has the fence of
// each, so that the next holder of one name is not shut out by another name's fence.
func TestFencesOfSeveralNamesGuardEachItsOwn(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		locks := clusterOf(c).client(t, nil)
		const ahead, behind = "a", "b"
		// This is the counter after a master whose clock was a minute ahead.
		lead := time.Now().Add(time.Minute).UnixMicro()
		owner := c.Owner(slotOf(ahead))
		expect.OK(t, expect.ErrOf(owner.Do("XADD", "holdfast:f{"+keys.Tag(uint16(slotOf(ahead)))+"}", backend.IDOf(lead), "g", "")))
		both := backend.Acquire(t, locks.Multi([]string{ahead, behind}, holdfast.TTL(term)))
		tokens := both.Fences()
		if tokens[ahead] <= uint64(lead) || tokens[behind] >= uint64(lead) {
			t.Fatalf("the fences are %v; the counter of %s was at %d", tokens, ahead, lead)
		}
		backend.Release(t, both)
		for _, name := range []string{ahead, behind} {
			next := backend.Acquire(t, locks.Mutex(name, holdfast.TTL(term)))
			if next.Fence() <= tokens[name] || name == behind && next.Fence() >= both.Fence() {
				t.Errorf("the next holder of %s has the fence %d after %v", name, next.Fence(), tokens)
			}
			backend.Release(t, next)
		}
	})
}

// Fault: A master of a Cluster loses its data. A holder has its lock again if no lock of its slot was granted since; otherwise its
// lease is lost.
func TestHoldersInAClusterHaveTheirLocksAgain(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		locks := clusterOf(c).client(t, nil)
		const name = "a"
		owner := c.Owner(slotOf(name))
		// One lock is in the slot of a, the other in another slot of its master.
		var near, far string
		for i := 0; near == "" || far == ""; i++ {
			switch other := fmt.Sprint("b", i); {
			case slotOf(other) == slotOf(name):
				near = other
			case far == "" && c.Owner(slotOf(other)) == owner:
				far = other
			}
		}
		acquire := func(name string) *holdfast.Lease {
			return backend.Acquire(t, locks.Mutex(name, holdfast.TTL(time.Minute), holdfast.NoRenew()))
		}
		lost, kept := acquire(name), acquire(far)
		lose := func() {
			expect.OK(t, expect.ErrOf(owner.Do("FLUSHALL")))
		}
		lose()
		for _, lease := range []*holdfast.Lease{lost, kept} {
			expect.Err(t, "nobody has had the lock", lease.Extend(t.Context(), time.Minute), nil)
		}
		lose()
		backend.Release(t, backend.Acquire(t, clusterOf(c).client(t, nil).Mutex(near)))
		expect.Err(t, "another may have had the lock", lost.Extend(t.Context(), time.Minute), holdfast.ErrLost)
		expect.Err(t, "nobody has had a lock of the slot", kept.Extend(t.Context(), time.Minute), nil)
		backend.Release(t, kept)
	})
}

// tunnelled is a connection through a tunnel, or a proxy: wherever it leads, it has the same remote address.
type tunnelled struct{ net.Conn }

func (tunnelled) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1080} }

func tunnel(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return tunnelled{conn}, nil
}

// Fault: All connections of a dialer have one remote address. Clients still leave a master that was replaced and
// stays alive, and waiters follow a slot to its next master.
func TestMastersThatShareARemoteAddress(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		t.Run("Sentinel", func(t *testing.T) {
			t.Parallel()
			g := server.StartSentinels(t, bin, 2, 3)
			open := sentinelsAt(g, g.Addrs(), tunnel)
			old := g.Servers[0]
			if _, err := old.Do("ACL", "SETUSER", "default", "-replicaof", "-slaveof"); err != nil { // it stays a master
				t.Fatal(err)
			}
			first := open.client(t, nil)
			backend.Release(t, backend.Acquire(t, first.Mutex("a")))
			q := newQueue(t, open, "b")
			old.AwaitInStep()
			g.Failover()
			g.NextMaster(old)
			awaitLeft(t, old)
			backend.Release(t, backend.Acquire(t, first.Mutex("a")))
			q.passes("the failover")
		})
		t.Run("Cluster", func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, bin)
			q := newQueue(t, clusterAt(c, 0, tunnel), "a")
			slot := slotOf("a")
			m := c.StartMove(slot, otherMaster(c, slot))
			for len(m.Keys(10)) > 0 {
			}
			m.Finish()
			backend.Waiters(t, q.l, 1)
			q.passes("the move of its slot")
		})
	})
}

// Fault: A Cluster's master hangs, and is not replaced. Its leases end by their deadlines; locks of other masters are renewed,
// handed over and granted meanwhile; afterwards its waiters are served, and all its locks are granted again.
func TestAnIsolatedMaster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := &server.Cluster{Nodes: server.StartCluster(t, bin, 3, server.Conf("cluster-require-full-coverage", "no"))}
		// It lets a master that stands still for two seconds answer.
		unhurried := &holdfast.Config{CommandTimeout: 6 * time.Second, RetryTimeout: 8 * time.Second}
		holder, waiter, third := clusterOf(c).client(t, unhurried), clusterOf(c).client(t, unhurried), clusterOf(c).client(t, unhurried)
		const brief, longer = 5 * time.Second, 15 * time.Second
		var mine, others []string // names of locks of the master that hangs, and of the others
		held, next := map[string]*holdfast.Lease{}, map[string]<-chan *holdfast.Lease{}
		for _, name := range names(30) {
			ttl := longer
			if first := slotOf(name)*3/16384 == 0; first && len(mine) < 4 {
				mine, ttl = append(mine, name), brief
			} else if !first && len(others) < 6 {
				others = append(others, name)
			} else {
				continue
			}
			held[name] = backend.Acquire(t, holder.Mutex(name, holdfast.TTL(ttl)))
			next[name] = backend.Start(t, waiter.Mutex(name, holdfast.TTL(ttl)))
			backend.Waiters(t, third.Mutex(name), 1)
		}
		c.Nodes[0].Pause()
		before := map[string]time.Time{}
		for name, lease := range held {
			before[name] = lease.Deadline()
		}
		for _, name := range mine {
			endsInTime(t, held[name])
		}
		for _, name := range others {
			backend.Eventually(t, "the lease of "+name+" is renewed", func() bool { return held[name].Deadline().After(before[name]) })
			expect.Err(t, name+", on another master", held[name].Err(), nil)
			backend.Release(t, held[name])
			backend.Release(t, backend.Receive(t, next[name]))
			for range 10 {
				backend.Release(t, backend.Acquire(t, third.Mutex(name)))
			}
		}
		for _, name := range mine {
			expect.Equal(t, "grants of "+name+" by a master that hangs", len(next[name]), 0)
		}
		c.Nodes[0].Resume()
		for _, name := range mine {
			lease := backend.Receive(t, next[name])
			expect.Rises(t, held[name].Fence(), lease.Fence())
			backend.Release(t, lease)
			for _, c := range []*holdfast.Client{holder, waiter, third} {
				backend.Release(t, backend.Acquire(t, c.Mutex(name)))
			}
		}
	})
}

// endsInTime waits until a lease is lost, which Err must report from the deadline on.
func endsInTime(t *testing.T, lease *holdfast.Lease) {
	t.Helper()
	backend.Eventually(t, "the lease of "+lease.Name()+" ends", func() bool {
		deadline := lease.Deadline()
		over := time.Now().After(deadline)
		err := lease.Err()
		if over && err == nil && lease.Deadline().Equal(deadline) {
			t.Fatalf("the lease of %q is believed in after its deadline", lease.Name())
		}
		return err != nil
	})
	backend.Told(t, "the holder of "+lease.Name()+" is told", lease.Done())
	var lost *holdfast.LostError
	if err := lease.Err(); !errors.As(err, &lost) || lost.Reason == holdfast.LossTaken || lost.Reason == holdfast.LossDeleted {
		t.Errorf("the lease of %q has ended with %v", lease.Name(), err)
	}
	expect.Err(t, "its context has ended with", context.Cause(lease.Context(context.Background())), holdfast.ErrLost)
}
