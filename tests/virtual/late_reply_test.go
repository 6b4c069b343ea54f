package virtual

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// distant is a driver whose acquires are answered late, for a while.
type distant struct {
	drivertest.Driver
	on atomic.Bool
}

func (d *distant) Run(ctx context.Context, call driver.Call) (string, error) {
	reply, err := d.Driver.Run(ctx, call)
	if d.on.Load() && does(call.Script, "acquire") {
		time.Sleep(200 * time.Millisecond)
	}
	return reply, err
}

// Fault: A grant comes past the deadline of the short lease that its caller wanted. That caller fails, and not the
// goroutine that is first in the wait queue by then.
func TestALateReplyIsNoFailureOfSomebodyElse(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		lease := acquire(t, client(t, srv).Mutex("a"))
		var way distant
		c := configured(t, srv, cfg, func(d drivertest.Driver) drivertest.Driver {
			way.Driver = d
			return &way
		})
		// Without renewals the lock must be confirmed after a hand-over.
		first := wait(t, c.Mutex("a", holdfast.TTL(50*time.Millisecond), holdfast.NoRenew()))
		second := wait(t, c.Mutex("a"))
		way.on.Store(true)
		release(t, lease)
		time.Sleep(100 * time.Millisecond)
		first.cancel()
		<-first.done
		second.served(t, 5*time.Second)
	})
}

// The same holds for a lock that was free: the grant is given back at once, though the server would keep the
// lock for another millisecond.
func TestAGrantPastItsDeadlineIsGivenBack(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		var way distant
		l := configured(t, srv, cfg, func(d drivertest.Driver) drivertest.Driver {
			way.Driver = d
			return &way
		}).Mutex("a", holdfast.TTL(201*time.Millisecond))
		way.on.Store(true)
		for range 3 {
			if _, err := l.TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("TryAcquire: %v", err)
			}
			synctest.Wait()
			if held, err := backend.IsHeld(t.Context(), l); held || err != nil {
				t.Errorf("it is held: %v, %v", held, err)
			}
		}
	})
}

// lateAtTimes is a driver whose server is a millisecond away and answers some acquires late.
type lateAtTimes struct {
	drivertest.Driver
	late *atomic.Int64
}

func (d lateAtTimes) Run(ctx context.Context, call driver.Call) (string, error) {
	time.Sleep(time.Millisecond)
	reply, err := d.Driver.Run(ctx, call)
	if does(call.Script, "acquire") && d.late.Add(-1) >= 0 {
		time.Sleep(200 * time.Millisecond)
	}
	return reply, err
}

// Fault: The answer that grants a queued waiter a short lease is late. The waiter tries again. If every answer takes longer than a
// lease lasts, Acquire fails and says so.
func TestAWaiterOutlivesALateAnswer(t *testing.T) {
	for late, succeeds := range map[int64]bool{1: true, 1000: false} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
				var left atomic.Int64
				lease := acquire(t, client(t, srv).Mutex("a"))
				c := configured(t, srv, cfg, func(d drivertest.Driver) drivertest.Driver { return lateAtTimes{d, &left} })
				// Without renewals the lock must be confirmed after a hand-over.
				first := wait(t, c.Mutex("a", holdfast.TTL(50*time.Millisecond), holdfast.NoRenew()))
				left.Store(late)
				release(t, lease)
				<-first.done
				if !succeeds {
					if !errors.Is(first.err, holdfast.ErrUnavailable) || !strings.Contains(first.err.Error(), "it lasts for 50ms, and the server answers within ") {
						t.Errorf("%v, %v", first.lease, first.err)
					}
				} else if first.err != nil {
					t.Errorf("Acquire: %v", first.err)
				} else {
					_ = first.lease.Release(t.Context()) // it may have expired
				}
			})
		})
	}
}

// If ctx leaves Release less time than the server needs, the error does not say that the server is unavailable.
func TestReleaseWithTooLittleTime(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		l := configured(t, srv, cfg, func(d drivertest.Driver) drivertest.Driver { return lateAtTimes{d, new(atomic.Int64)} }).Mutex("a")
		lease := acquire(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Microsecond)
		defer cancel()
		err := lease.Release(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, holdfast.ErrUnavailable) || !strings.Contains(err.Error(), "the server had 10µs to answer") {
			t.Errorf("Release: %v", err)
		}
		time.Sleep(time.Second)
		release(t, acquire(t, l))
	})
}

// slowToRelease is a driver whose releases arrive late.
type slowToRelease struct{ drivertest.Driver }

func (d slowToRelease) Run(ctx context.Context, call driver.Call) (string, error) {
	if does(call.Script, "release") {
		time.Sleep(2 * time.Second)
	}
	return d.Driver.Run(ctx, call)
}

// Fault: A release arrives after the lease has ended, and finds the lock gone, or in other hands. Nobody deleted it, or took it
// before its time: it had expired.
func TestALockThatExpiredBeforeItsReleaseArrivedWasNotDeleted(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		cfg.CommandTimeout = 5 * time.Second
		l := configured(t, srv, cfg, func(d drivertest.Driver) drivertest.Driver { return slowToRelease{d} }).
			Mutex("a", holdfast.TTL(time.Second), holdfast.NoRenew())
		for _, taken := range []bool{false, true} {
			lease := acquire(t, l)
			var next *waiting
			if taken {
				next = inLine(t, client(t, srv).Mutex("a"))
			}
			var lost *holdfast.LostError
			if err := lease.Release(t.Context()); !errors.As(err, &lost) || lost.Reason != holdfast.LossExpired {
				t.Errorf("taken by another %v: Release: %v", taken, err)
			}
			if taken {
				next.served(t, 5*time.Second)
			}
		}
	})
}
