package virtual

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// suspendable is bubble on a machine that f can suspend.
func suspendable(t *testing.T, f func(t *testing.T, srv *holdfasttest.Server, suspend func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		begun := time.Now()
		t.Cleanup(clock.SetBoot(func() time.Duration { return time.Hour + time.Since(begun) + time.Duration(slept.Load()) }))
		f(t, holdfasttest.Run(t), func(d time.Duration) { slept.Add(int64(d)) })
	})
}

// Fault: The machine is suspended for less than the lease lasts. When it wakes, the lease is renewed.
func TestLeaseIsRenewedAfterASuspensionShorterThanItself(t *testing.T) {
	suspendable(t, func(t *testing.T, srv *holdfasttest.Server, suspend func(time.Duration)) {
		lease := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(10*time.Minute)))
		time.Sleep(time.Second)
		first := lease.Deadline()
		suspend(9 * time.Minute)
		time.Sleep(5 * time.Second)
		if !lease.Deadline().After(first) {
			t.Error("5s after waking up it is not renewed")
		}
		time.Sleep(20 * time.Minute)
		if err := lease.Err(); err != nil {
			t.Fatalf("it ended: %v", err)
		}
		release(t, lease)
	})
}

// Fault: The machine is suspended for less than a lease without renewals lasts. When it wakes, the rest is measured
// by the clock that went on.
func TestContextEndsOnTimeAfterASuspensionShorterThanTheLease(t *testing.T) {
	for name, cfg := range ways {
		t.Run(name, func(t *testing.T) {
			suspendable(t, func(t *testing.T, srv *holdfasttest.Server, suspend func(time.Duration)) {
				c := configured(t, srv, cfg, meddle(func(r request) (string, error) {
					if r.does("renew") {
						return "", errRefused
					}
					return r.send()
				}))
				lease := acquire(t, c.Mutex("a", holdfast.TTL(10*time.Minute)))
				begun := time.Now()
				suspend(9 * time.Minute)
				<-lease.Done()
				if after := time.Since(begun); after > time.Minute {
					t.Errorf("a minute was left; the context ended %s after waking up: %v", after, context.Cause(lease.Context(context.Background())))
				}
			})
		})
	}
}

// Fault: The machine is suspended past the deadline, and the timers with it. Err says that the lease is lost, and
// contexts end soon after waking.
func TestSuspensionEndsLeasesOnWakingUp(t *testing.T) {
	suspendable(t, func(t *testing.T, srv *holdfasttest.Server, suspend func(time.Duration)) {
		c := client(t, srv)
		var leases []*holdfast.Lease
		var contexts []context.Context
		for name, renew := range map[string]bool{"renewed": true, "not renewed": false} {
			lease := acquire(t, c.Mutex(name, holdfast.TTL(10*time.Minute), backend.Renew(renew)))
			leases = append(leases, lease)
			contexts = append(contexts, lease.Context(context.Background()))
		}
		suspend(time.Hour)
		time.Sleep(30 * time.Second)   // renewals are due in 200 s, the end of the other one in ten minutes
		for _, ctx := range contexts { // before Err, which would end them, too
			var lost *holdfast.LostError
			if !errors.As(context.Cause(ctx), &lost) || lost.Reason != holdfast.LossExpired {
				t.Errorf("30 s after waking up, the context's cause is %v", context.Cause(ctx))
			}
		}
		for _, lease := range leases {
			if err := lease.Err(); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("%s: Err: %v", lease.Name(), err)
			}
		}
	})
}

// Fault: A lease ends while the machine is suspended. It is not passed on within the process.
func TestALeaseThatASuspensionOutlivedIsNotPassedOn(t *testing.T) {
	suspendable(t, func(t *testing.T, srv *holdfasttest.Server, suspend func(time.Duration)) {
		other := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(time.Minute)))
		l := client(t, srv).Mutex("a", holdfast.TTL(10*time.Second))
		first, second, third := wait(t, l), wait(t, l), wait(t, l)
		release(t, other)
		first.granted(t)
		time.Sleep(10 * time.Millisecond) // fences for the others are reserved
		suspend(time.Minute)
		if err := first.lease.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Release: %v", err)
		}
		second.served(t, time.Minute)
		third.served(t, time.Minute)
		if a, b := first.lease.Fence(), second.lease.Fence(); b <= a {
			t.Errorf("fence %d follows %d", b, a)
		}
	})
}
