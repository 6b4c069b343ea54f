package holdfasttest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

func TestBreak(t *testing.T) {
	for kind, lock := range kinds {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, one, other *holdfasttest.Client) {
				lease, spared := acquire(t, lock(one)), acquire(t, one.Mutex("spared"))
				time.Sleep(2500 * time.Millisecond) // the client listens, and no renewal is due
				began := time.Now()
				one.Break("a")
				lost(t, lease, holdfast.LossBroken)
				if took := time.Since(began); took > time.Second {
					t.Errorf("the holder was told after %s", took)
				}
				var err *holdfast.LostError
				if errors.As(lease.Err(), &err) && err.By != "operator" {
					t.Errorf("it was broken by %q", err.By)
				}
				kept(t, spared)
				next := acquire(t, lock(other))
				time.Sleep(time.Minute)
				kept(t, next)
				if next.Fence() <= lease.Fence() {
					t.Errorf("fence %d follows %d", next.Fence(), lease.Fence())
				}
				release(t, next)
				release(t, spared)
			})
		})
	}
}

// A lease that has just been granted goes on until the client begins to listen, which is before it renews. If both came at the same
// time, either could be first: hence many times.
func TestBreakOfAYoungLease(t *testing.T) {
	for range 50 {
		bubble(t, breakOfAYoungLease)
	}
}

func breakOfAYoungLease(t *testing.T, one, other *holdfasttest.Client) {
	lease := acquire(t, one.Mutex("a"))
	one.Break("a")
	release(t, acquire(t, other.Mutex("a")))
	time.Sleep(1500 * time.Millisecond)
	lost(t, lease, holdfast.LossBroken)
}

// A holder that is cut off hears of the break when the network heals.
func TestBreakDuringAPartition(t *testing.T) {
	bubble(t, func(t *testing.T, one, other *holdfasttest.Client) {
		lease := acquire(t, one.Mutex("a"))
		time.Sleep(6 * time.Second)
		heal := one.Partition()
		one.Break("a")
		kept(t, lease)
		release(t, acquire(t, other.Mutex("a")))
		heal()
		time.Sleep(5 * time.Second)
		lost(t, lease, holdfast.LossBroken)
	})
}

// Break breaks the lock that has the client's prefix.
func TestBreakOfAPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := holdfasttest.Run(t)
		one := srv.NewClient(t, &holdfast.Config{Prefix: "app:"})
		lease := acquire(t, one.Mutex("a"))
		one.Break("a")
		time.Sleep(1500 * time.Millisecond)
		lost(t, lease, holdfast.LossBroken)
	})
}
