package faults

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// scripts returns how many scripts the server has run, including commands and transactions that stand in for one.
func scripts(b *backend.Backend) int64 {
	stats := b.Server.CommandStats()
	return stats["evalsha"] + stats["delifeq"] + stats["exec"]
}

// Fault: A copy of a TryAcquire that was answered "held" comes when the lock is free. It takes nothing, or gives it back.
func TestLateCopyOfATryThatFoundTheLockHeldTakesNothing(t *testing.T) {
	t.Parallel()
	b := onePlace(t)
	p := proxy.New(t, b.Server.Addr())
	eachWay(t, p, patient, func(t *testing.T, c *holdfast.Client, w way) {
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("a"))
		held := p.Hold(w.acquiring("a"), proxy.Cut)
		expect.Err(t, "TryAcquire", expect.ErrOf(c.Mutex("a", holdfast.TTL(longest)).TryAcquire(t.Context())), holdfast.ErrHeld)
		if w.native {
			backend.Release(t, lease)
			givenBack(t, b, held)
			return
		}
		backend.Eventually(t, "the tombstone stands", func() bool { return slices.Contains(b.Keys(t), "holdfast:{a}:q") })
		backend.Release(t, lease)
		w.refuses(t, held.Forward(t), "gone")
		b.Cleaned(t)
	})
}

// Fault: A lock is deleted, and a late copy of its acquire brings it back with the same token. The lease is lost:
// somebody may have held the lock in between.
func TestDeletedLockThatALateCopyBringsBackIsLost(t *testing.T) {
	t.Parallel()
	b := onePlace(t)
	p := proxy.New(t, b.Server.Addr())
	eachWay(t, p, patient, func(t *testing.T, c *holdfast.Client, w way) {
		b.clients = []*holdfast.Client{c}
		held := p.Hold(w.acquiring("a"), proxy.Cut)
		lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(20*time.Second)))
		do(t, b.Server, "DEL", "holdfast:{a}")
		if reply := held.Forward(t); !w.granted(reply) {
			t.Fatalf("the late copy is answered %q", reply)
		}
		taken(t, lease)
		b.Cleaned(t)
	})
}

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
	c := expect.Of(holdfastgoredis.New(rdb, &holdfast.Config{CommandTimeout: 4 * time.Second})).OK(t)
	backend.CloseWith(t, c)
	const key = "holdfast:{a}"
	lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(9*time.Second)))
	survives := func(where string) {
		t.Helper()
		before := lease.Deadline()
		backend.Eventually(t, "it is renewed", func() bool { return lease.Err() != nil || lease.Deadline().After(before) })
		expect.Err(t, where+": the lease", lease.Err(), nil)
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

// Fault: An old master, which has lost its replica to the new one, stays reachable. It refuses writes: ErrUnavailable
// with the code NOREPLICAS, and nobody spins.
func TestAnOldMasterRefusesWrites(t *testing.T) {
	eachMutex(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 9 * time.Second // so that a renewal has been refused before it ends
		replica := server.StartReplica(t, b.Server.Binary(), b.Server)
		do(t, b.Server, "CONFIG", "SET", "min-replicas-to-write", "1")
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(ttl)))
		waiter := b.Client(t, nil)
		waiting, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() {
			_, err := waiter.Mutex("a").Acquire(waiting)
			gaveUp <- err
		}()
		backend.Waiters(t, waiter.Mutex("a"), 1)
		do(t, replica, "REPLICAOF", "NO", "ONE")
		backend.Eventually(t, "the master has lost its replica", func() bool {
			return b.Server.Info("replication")["connected_slaves"] == "0"
		})

		refused, before := time.Now(), scripts(b)
		newcomer := b.Client(t, nil)
		for what, acquire := range map[string]func(context.Context) (*holdfast.Lease, error){
			"Acquire": newcomer.Mutex("b").Acquire, "TryAcquire": newcomer.Mutex("b").TryAcquire,
		} {
			if _, err := acquire(t.Context()); !backend.HasCode(err, "NOREPLICAS") || errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("%s: %v", what, err)
			}
		}
		<-lease.Done()
		var lost *holdfast.LostError
		if !errors.As(lease.Err(), &lost) || lost.Reason != holdfast.LossUnreachable || !backend.HasCode(lost, "NOREPLICAS") {
			t.Errorf("the lease ended: %v", lease.Err())
		}

		// The holder, the waiter and the late release keep asking, but not all the time. How often is for the nightly tests.
		select {
		case err := <-gaveUp:
			t.Fatalf("the waiter gave up: %v", err)
		case <-time.After(time.Second):
		}
		asked, took := scripts(b)-before, time.Since(refused)
		if bound := int64(30 * (took + time.Second).Seconds()); asked > bound && !testing.Short() {
			t.Errorf("%d scripts; at most %d were expected", asked, bound)
		}
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) || !backend.HasCode(err, "NOREPLICAS") {
			t.Errorf("the waiter: want its context's error, with that of the server, got %v", err)
		}
	})
}

// Fault: The server is short of memory, and its policy evicts locks, queues or the fence counter. Holders are told, and fences rise.
func TestEviction(t *testing.T) {
	eachMutex(t, func(t *testing.T, b *backend.Backend) {
		for _, policy := range []string{"volatile-lru", "volatile-ttl", "allkeys-lru"} {
			t.Run(policy, func(t *testing.T) {
				t.Parallel()
				viaClient := b.ViaClient
				b := backend.Real(t, b.Server.Binary())
				b.ViaClient = viaClient
				do(t, b.Server, "CONFIG", "SET", "maxmemory-policy", policy)
				// A renewal that comes between the eviction and the newcomer finds the lock free, too.
				for round := 1; !evicts(t, b, policy); round++ {
					if round == 10 {
						t.Fatalf("%s: the newcomer came too late %d times", policy, round)
					}
				}
				b.Cleaned(t)
			})
		}
	})
}

// evicts evicts a held lock, and then a newcomer acquires it. It returns false if the holder's renewal came
// before the newcomer, and took the lock again, or if the waiter came first.
func evicts(t *testing.T, b *backend.Backend, policy string) bool {
	const ttl = 6 * time.Second
	rdb := b.Redis(t)
	var r backend.Resource
	holder := backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(ttl)))
	r.Write(holder.Fence())
	waiting := backend.Start(t, b.Client(t, nil).Mutex("a"))
	backend.Waiters(t, b.Client(t, nil).Mutex("a"), 1)

	evicted := b.Server.Info("stats")["evicted_keys"]
	do(t, b.Server, "CONFIG", "SET", "maxmemory", "1")
	backend.Eventually(t, "lock and queue are evicted", func() bool {
		return rdb.Exists(t.Context(), "holdfast:{a}", "holdfast:{a}:q").Val() == 0
	})
	counter := rdb.Exists(t.Context(), "holdfast:fences").Val()
	do(t, b.Server, "CONFIG", "SET", "maxmemory", "0")
	if now := b.Server.Info("stats")["evicted_keys"]; now == evicted {
		t.Fatalf("%s: nothing was evicted; %s keys in all", policy, now)
	}
	if (counter == 0) != (policy == "allkeys-lru") {
		t.Errorf("%s: the fence counter: %d", policy, counter)
	}

	// A newcomer finds neither lock nor queue. The waiter returns to its queue when the lock that it saw would have expired.
	newcomer, err := b.Client(t, nil).Mutex("a").TryAcquire(t.Context())
	if errors.Is(err, holdfast.ErrHeld) {
		if err := holder.Release(t.Context()); err != nil && !errors.Is(err, holdfast.ErrLost) {
			t.Fatal(err)
		}
		backend.Release(t, backend.Receive(t, waiting))
		return false
	} else if err != nil {
		t.Fatal(err)
	}
	r.Succeed(t, holder, newcomer)
	taken(t, holder)
	backend.Release(t, newcomer)
	next := backend.Receive(t, waiting)
	r.Succeed(t, newcomer, next)
	backend.Release(t, next)
	return true
}
