package virtual

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/clock"
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

// unreachable is the driver of a server that renewals do not reach.
type unreachable struct{ drivertest.Driver }

func (d unreachable) Run(ctx context.Context, call driver.Call) (string, error) {
	if does(call.Script, "renew") {
		return "", errors.New("no way to the server")
	}
	return d.Driver.Run(ctx, call)
}

// Fault: The machine is suspended for less than a lease without renewals lasts. When it wakes, the rest is measured
// by the clock that went on.
func TestContextEndsOnTimeAfterASuspensionShorterThanTheLease(t *testing.T) {
	for name, cfg := range ways {
		t.Run(name, func(t *testing.T) {
			suspendable(t, func(t *testing.T, srv *holdfasttest.Server, suspend func(time.Duration)) {
				c := configured(t, srv, cfg, func(d drivertest.Driver) drivertest.Driver { return unreachable{d} })
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

// Fault: A lease ends while the machine is suspended. It is not passed on within the process.
func TestALeaseThatASuspensionOutlivedIsNotPassedOn(t *testing.T) {
	suspendable(t, func(t *testing.T, srv *holdfasttest.Server, suspend func(time.Duration)) {
		other := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(time.Minute)))
		l := client(t, srv).Mutex("a", holdfast.TTL(10*time.Second))
		first, second, third := wait(t, l), wait(t, l), wait(t, l)
		release(t, other)
		if <-first.done; first.err != nil {
			t.Fatal(first.err)
		}
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
