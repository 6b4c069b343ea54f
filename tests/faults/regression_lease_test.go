package faults

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
)

// scripts returns how many scripts the server has run, including commands and transactions that stand in for one.
func scripts(b *backend.Backend) int64 {
	stats := b.Server.CommandStats()
	return stats["evalsha"] + stats["delifeq"] + stats["exec"]
}

// Two goroutines share a Lock. If one releases twice, or too late, that affects only its own lease, even if the
// other was passed the lock within the process, with the same token.
//
// Bug: Two goroutines share a handle, and one releases the other's lock, by releasing twice or too late.
func TestAReleaseIsOfItsOwnLeaseOnly(t *testing.T) {
	t.Parallel()
	eachMutex(t, func(t *testing.T, b *backend.Backend) {
		l := b.Client(t, nil).Mutex("a", holdfast.TTL(time.Minute))
		intact := func(t *testing.T, deadline time.Time, lease *holdfast.Lease) {
			t.Helper()
			held, err := backend.IsHeld(t.Context(), b.Client(t, nil).Mutex("a"))
			if expired(lease.Err(), deadline) {
				return // it was a claim still
			}
			if !held || err != nil || lease.Err() != nil {
				t.Errorf("the other goroutine's lease: held %v, %v; %v", held, err, lease.Err())
			}
		}
		t.Run("twice", func(t *testing.T) {
			for range 5 {
				began := time.Now()
				// The first has no fence left to pass the lease on with; the second may have one.
				first := backend.Acquire(t, l)
				next := [...]<-chan *holdfast.Lease{backend.Start(t, l), backend.Start(t, l)}
				backend.Waiters(t, l, 1)
				backend.Release(t, first)
				var second *holdfast.Lease
				third := next[1]
				select {
				case second = <-next[0]:
				case second = <-next[1]:
					third = next[0]
				}
				backend.Release(t, second)
				lease := backend.Receive(t, third)
				deadline := lease.Deadline()
				backend.Release(t, second)
				backend.Release(t, first)
				intact(t, deadline, lease)
				backend.ReleaseSince(t, began, lease)
			}
		})
		t.Run("late", func(t *testing.T) {
			first := backend.Acquire(t, l)
			do(t, b.Server, "DEL", "holdfast:{a}")
			second, err := l.TryAcquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := first.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("Release of the lost lease: %v", err)
			}
			intact(t, second.Deadline(), second)
			backend.Release(t, second)
		})
		b.Cleaned(t)
	})
}

// After a loss, or a release at whatever moment, nothing is renewed.
//
// Bug: A renewal is armed after the release, or goes on after a loss.
func TestNothingIsRenewedAfterTheEnd(t *testing.T) {
	t.Parallel()
	eachMutex(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 6 * time.Second
		const interval = ttl / 3 // of renewals, with a jitter of a twentieth
		// A subscription costs a script now and then. This client needs none.
		c := b.Client(t, &holdfast.Config{PollInterval: time.Minute})
		renewed := func() int64 {
			before := scripts(b)
			time.Sleep(2 * interval)
			return scripts(b) - before
		}
		t.Run("released", func(t *testing.T) {
			// A renewal that is under way when the machine stands still is counted later.
			machine.Undisturbed(t, func() error {
				var leases []*holdfast.Lease
				for n := range 40 {
					leases = append(leases, backend.Acquire(t, c.Mutex(strconv.Itoa(n), holdfast.TTL(ttl))))
				}
				time.Sleep(interval - interval/20)
				for _, lease := range leases { // before, in the middle of and after a renewal
					time.Sleep(interval / 10 / time.Duration(len(leases)))
					backend.Release(t, lease)
				}
				b.Cleaned(t)
				if n := renewed(); n != 0 {
					return fmt.Errorf("%d scripts after the releases", n)
				}
				return nil
			})
		})
		t.Run("taken", func(t *testing.T) {
			lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(ttl)))
			do(t, b.Server, "SET", "holdfast:{a}", "theirs", "PX", 60_000)
			taken(t, lease)
			if n := renewed(); n > 1 { // the token is given back, once
				t.Errorf("%d scripts after the loss", n)
			}
			if reply := do(t, b.Server, "GET", "holdfast:{a}"); reply != "theirs" {
				t.Errorf("the other's value became %v", reply)
			}
		})
	})
}

// Errors, however many, are no reason to stop renewing.
//
// Bug: A watchdog stops at the first error.
func TestRenewalsGoOnAfterErrors(t *testing.T) {
	t.Parallel()
	eachMutex(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 9 * time.Second
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(ttl)))
		refuseWrites(t, b, true)
		before := scripts(b)
		backend.Eventually(t, "a renewal was refused", func() bool { return scripts(b)-before >= 1 })
		first := lease.Deadline()
		backend.Eventually(t, "three more were refused", func() bool { return scripts(b)-before >= 4 })
		if !lease.Deadline().Equal(first) {
			t.Error("a refused renewal moved the deadline")
		}
		refuseWrites(t, b, false)
		backend.Eventually(t, "the lease is renewed", func() bool { return lease.Err() == nil && lease.Deadline().After(first) })
		within(t, b.Redis(t), lease)
		backend.Release(t, lease)
	})
}

// A waiter behind a dead one does not keep asking whether it is gone.
//
// Bug: The head of the queue is dead, and the others spin.
func TestADeadHeadCostsNoCommands(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		rdb := b.Redis(t)
		holder := backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(time.Minute), holdfast.NoRenew()))
		// The dead one has just come: one that came long ago is dropped by the next that comes.
		dead := redis.Z{Score: float64(rdb.Time(t.Context()).Val().UnixMicro()), Member: "dead\n1500\nholdfast:c:dead\n{}"}
		if err := rdb.ZAdd(t.Context(), "holdfast:{a}:q", dead).Err(); err != nil {
			t.Fatal(err)
		}
		var waiting []<-chan *holdfast.Lease
		for n := range 3 {
			waiting = append(waiting, backend.Start(t, b.Client(t, nil).Mutex("a")))
			backend.Waiters(t, b.Client(t, nil).Mutex("a"), n+2)
		}
		backend.Eventually(t, "the holder has read the journal", func() bool {
			return rdb.PubSubNumSub(t.Context(), "holdfast:c:h").Val()["holdfast:c:h"] == 1
		})
		// It ends before the clients check that the server has their subscriptions, 5 s after they have subscribed.
		machine.Undisturbed(t, func() error {
			// Every client checks the settings once, in the background.
			before, now := int64(-1), scripts(b)
			for tries := 0; now != before && tries < 20; tries++ {
				time.Sleep(500 * time.Millisecond)
				before, now = now, scripts(b)
			}
			time.Sleep(2 * time.Second)
			if n := scripts(b) - before; n > 3 { // at most one look each
				return fmt.Errorf("%d scripts in 2s", n)
			}
			return nil
		})
		begun := time.Now()
		backend.Release(t, holder)
		for _, leases := range waiting {
			backend.Release(t, backend.Receive(t, leases))
		}
		t.Logf("three waiters behind a dead one are served in %s", time.Since(begun))
		b.Cleaned(t)
	})
}
