package dataloss

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

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

// Fault: The server comes back without its data or with older data, or its successor is a replica that missed the locks, without Strict
// mode. Leases may overlap, which are counted, and locks that were released may be held again; fences rise and none is repeated,
// nobody hangs, holders are told, and late writes are refused.
//
// Bug: An unsynced replica is promoted, and nobody can tell the two holders apart.
func TestLocksThatTheServerHasLost(t *testing.T) {
	long(t)
	t.Parallel()
	eachLoss(t, outages, func(t *testing.T, l loss) {
		const ttl = 10 * time.Second
		early, holders, waiters := l.client(nil), l.client(nil), l.client(nil)
		// Both may be held again after the loss; the first keeps a waiter out until it expires.
		old, other := backend.Acquire(t, early.Mutex("0", holdfast.TTL(4*time.Second))), backend.Acquire(t, early.Mutex("old", holdfast.TTL(time.Minute)))
		kept := backend.Acquire(t, early.Mutex("kept", holdfast.TTL(time.Minute)))
		l.before()
		backend.Release(t, old)
		backend.Release(t, other)
		// A holder that does not renew is not told.
		untold := backend.Acquire(t, holders.Mutex("untold", holdfast.TTL(time.Minute), holdfast.NoRenew()))
		all := successions(t, holders, waiters, ttl, 5)

		begun := time.Now()
		l.lose()
		seen := map[uint64]bool{}
		outage := time.Since(begun)
		if h, err := backend.HolderOf(t.Context(), waiters.Mutex("old")); l.keeps && (err != nil || !backend.IsShown(h.Fence, other.Fence())) {
			t.Errorf("what was released after the last data that are left is not held again: %+v, %v", h, err)
		}
		overlaps := settle(t, waiters, all, outage, ttl, seen)
		t.Logf("%d overlaps of %d; every late write was refused", overlaps, len(all))
		for _, released := range []*holdfast.Lease{old, other} {
			if err := released.Err(); err != holdfast.ErrReleased || seen[released.Fence()] {
				t.Errorf("%v, which was released: %v; its fence was issued twice: %t", released, err, seen[released.Fence()])
			}
		}
		if err := kept.Err(); l.keeps && err != nil {
			t.Errorf("a lock that the server has not lost: %v", err)
		}
		next := backend.Acquire(t, waiters.Mutex(untold.Name()))
		var r backend.Resource
		if !r.Succeed(t, untold, next) {
			t.Errorf("the leases do not overlap, so these tests cannot show what Strict does: %v, %v", untold.Err(), next.Err())
		}
		backend.Release(t, next)
		if err := untold.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Release of the lost lease: %v", err)
		}
	})
}
