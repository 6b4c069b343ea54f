package dataloss

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// losses returns how often a test should make a server lose its data.
func losses() int {
	if soak.Long() {
		return 50
	}
	return 2
}

// succession is a lock with its holder and a waiter, which gets the lock after the server has lost it.
type succession struct {
	resource backend.Resource
	holder   *holdfast.Lease
	next     chan *holdfast.Lease // nil after an error
	overlap  bool                 // the holder had not been told yet; set before next is sent
}

// successions begins that many, each on a lock of its own.
func successions(t *testing.T, holders, waiters *holdfast.Client, ttl time.Duration, n int) []*succession {
	t.Helper()
	var all []*succession
	for i := range n {
		name := strconv.Itoa(i)
		s := &succession{holder: backend.Acquire(t, holders.Mutex(name, holdfast.TTL(ttl))), next: make(chan *holdfast.Lease, 1)}
		s.resource.Write(s.holder.Fence())
		go func() {
			lease, err := waiters.Mutex(name).Acquire(t.Context())
			if err == nil {
				s.overlap = s.resource.Succeed(t, s.holder, lease)
			} else if t.Context().Err() == nil {
				t.Errorf("Acquire: %v", err)
			}
			s.next <- lease
		}()
		backend.Waiters(t, holders.Mutex(name), 1)
		all = append(all, s)
	}
	return all
}

// settle waits until every waiter has taken over and every holder has been told, or has renewed its lease if
// the server came back soon enough. It returns how many holders overlapped, and adds the fences to those seen
// so far. It asks c who holds the locks.
func settle(t *testing.T, c *holdfast.Client, all []*succession, outage, ttl time.Duration, seen map[uint64]bool) (overlaps int) {
	t.Helper()
	for _, s := range all {
		var next *holdfast.Lease
		again := false
		backend.Eventually(t, "one of them has the lock", func() bool {
			select {
			case next = <-s.next:
				if next == nil {
					t.Fatal("no lease")
				}
				return true
			default:
			}
			h, err := backend.HolderOf(t.Context(), c.Mutex(s.holder.Name()))
			again = err == nil && h.Fence == s.holder.Fence()
			return again
		})
		if again {
			// The holder came back before the waiter, and took its lock again.
			backend.Release(t, s.holder)
			backend.Release(t, backend.Receive(t, s.next))
			continue
		}
		if s.overlap {
			overlaps++
		}
		select {
		case <-s.holder.Done():
		case <-time.After(30 * time.Second):
			t.Fatalf("the holder is not told within 30s")
		}
		var lost *holdfast.LostError
		// A renewal can find the lock free before the waiter has taken it. If others have raised the shared counter
		// by then, the holder learns only that its lock is gone.
		if !errors.As(s.holder.Err(), &lost) || outage < ttl/4 && lost.Reason != holdfast.LossTaken && lost.Reason != holdfast.LossDeleted {
			t.Errorf("the lease ended, %s after the server: %v", outage, s.holder.Err())
		}
		for _, fence := range []uint64{s.holder.Fence(), next.Fence()} {
			if seen[fence] {
				t.Errorf("fence %d was issued twice", fence)
			}
			seen[fence] = true
		}
		backend.Release(t, next)
	}
	return overlaps
}

// Fault: The server is killed and comes back without its data, without Strict mode. Fences rise and none is repeated,
// nobody hangs; overlaps are counted, and late writes refused.
func TestRestartWithoutData(t *testing.T) {
	long(t)
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 10 * time.Second
		const locks = 5
		holders, waiters := b.Client(t, nil), b.Client(t, nil)
		seen := map[uint64]bool{}
		overlaps := 0
		for range losses() {
			all := successions(t, holders, waiters, ttl, locks)
			begun := time.Now()
			b.Server.Kill()
			b.Server.Restart()
			overlaps += settle(t, waiters, all, time.Since(begun), ttl, seen)
		}
		t.Logf("%d restarts without data, %d locks each: %d overlaps; every late write was refused", losses(), locks, overlaps)
		b.Cleaned(t)
	})
}

// Fault: The server comes back with older data, without Strict mode: released locks are held again, later ones are
// gone, and the fence counter has its old value. Fences rise all the same, nobody hangs; overlaps are counted, and
// late writes refused.
func TestRestartFromAnOlderAOF(t *testing.T) {
	long(t)
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 10 * time.Second
		const locks = 5
		early, holders, waiters := b.Client(t, nil), b.Client(t, nil), b.Client(t, nil)
		seen := map[uint64]bool{}
		overlaps := 0
		for range losses() {
			// It exists again after the restart, and keeps a waiter out until it expires.
			old := backend.Acquire(t, early.Mutex("0", holdfast.TTL(4*time.Second)))
			other := backend.Acquire(t, early.Mutex("old", holdfast.TTL(time.Minute)))
			held, err := backend.HolderOf(t.Context(), early.Mutex("old"))
			if err != nil {
				t.Fatal(err)
			}
			copyAOF(t, b.Server)
			backend.Release(t, other)
			backend.Release(t, old)
			all := successions(t, holders, waiters, ttl, locks)
			counter := backend.LastFence(t, b.Redis(t), "holdfast:fences")

			begun := time.Now()
			b.Server.Kill()
			restoreAOF(t, b.Server)
			b.Server.Restart()
			outage := time.Since(begun)
			if h, err := backend.HolderOf(t.Context(), early.Mutex("old")); err != nil || h.Grant != held.Grant {
				t.Fatalf("the old lock is not back: %+v, %v; the counter was %d", h, err, counter)
			}
			// Its earlier holder knows that the lease is released.
			if err := old.Err(); err != holdfast.ErrReleased {
				t.Errorf("the lease that was released: %v", err)
			}
			if seen[old.Fence()] {
				t.Errorf("fence %d was issued twice", old.Fence())
			}
			overlaps += settle(t, waiters, all, outage, ttl, seen)
			b.Redis(t).Del(t.Context(), "holdfast:{old}") // by force; otherwise it would end with its TTL
		}
		t.Logf("%d restarts from an older AOF, %d locks each: %d overlaps; every late write was refused", losses(), locks, overlaps)
		b.Cleaned(t)
	}, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"))
}

// Fault: The master dies, and the replica that succeeds it has missed the locks, without Strict mode. Leases may
// overlap, which are counted; fences rise, and late writes are refused.
//
// Bug: An unsynced replica is promoted, and nobody can tell the two holders apart.
func TestFailoverToAReplicaThatMissedTheLock(t *testing.T) {
	long(t)
	t.Parallel()
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			const ttl = 10 * time.Second
			const locks = 5
			p := startPair(t, bin)
			holders, waiters := p.client(nil), p.client(nil)
			seen := map[uint64]bool{}
			overlaps := 0
			for n := range losses() {
				replica := p.servers[1-p.master.Load()]
				lease := backend.Acquire(t, holders.Mutex("replicated", holdfast.TTL(time.Minute)))
				backend.Eventually(t, "the replica has a lock", func() bool {
					return do(t, replica, "EXISTS", "holdfast:{replicated}") == int64(1)
				})
				p.lag()
				// A holder that does not renew is not told.
				untold := backend.Acquire(t, holders.Mutex(fmt.Sprint("untold", n), holdfast.TTL(time.Minute), holdfast.NoRenew()))
				all := successions(t, holders, waiters, ttl, locks)
				if n := do(t, replica, "EXISTS", "holdfast:{0}", "holdfast:{0}:q"); n != int64(0) {
					t.Fatalf("the replica has %d of lock and queue", n)
				}

				begun := time.Now()
				p.fail()
				overlaps += settle(t, waiters, all, time.Since(begun), ttl, seen)
				if err := lease.Err(); err != nil {
					t.Errorf("the lock that the replica had: %v", err)
				}
				backend.Release(t, lease)
				next := backend.Acquire(t, waiters.Mutex(untold.Name()))
				var r backend.Resource
				if !r.Succeed(t, untold, next) {
					t.Errorf("the leases do not overlap, so these tests cannot show what Strict does: %v, %v", untold.Err(), next.Err())
				}
				backend.Release(t, next)
				if err := untold.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("Release of the lost lease: %v", err)
				}
				p.servers[1-p.master.Load()].Restart()
				p.follow()
			}
			t.Logf("%d failovers to a replica that missed %d locks: %d overlaps; every late write was refused", losses(), locks, overlaps)
			(&backend.Backend{Name: bin.Name, Server: p.servers[p.master.Load()]}).Cleaned(t)
		})
	}
}
