package virtual

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// renewals counts the calls that renew mutexes.
type renewals struct {
	drivertest.Driver
	calls *atomic.Int64
}

func (d renewals) Run(ctx context.Context, call driver.Call) (string, error) {
	if does(call.Script, "renew") {
		d.calls.Add(1)
	}
	return d.Driver.Run(ctx, call)
}

// Leases that were acquired at different times are renewed together.
func TestRenewalsWaitForEachOther(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		var calls atomic.Int64
		c := configured(t, srv, cfg, func(d drivertest.Driver) drivertest.Driver { return renewals{d, &calls} })
		const ttl, n = 12 * time.Second, 100
		var leases []*holdfast.Lease
		for i := range n {
			lease, err := c.Mutex(fmt.Sprint(i), holdfast.TTL(ttl)).Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, lease)
			time.Sleep(ttl / 3 / n)
		}
		calls.Store(0)
		const periods = 6
		time.Sleep(periods * ttl / 3)
		// There are three calls for each of the sixteen slots of a period, since the first of a slot do not
		// wait.
		if got := calls.Load(); got > periods*16*3 || got < periods {
			t.Errorf("%d leases were renewed with %d calls in %d periods", n, got, periods)
		}
		for _, lease := range leases {
			if err := lease.Err(); err != nil {
				t.Errorf("%s: %v", lease.Name(), err)
			}
			release(t, lease)
		}
	})
}

// batches counts the calls that renew mutexes, and how many mutexes they renew.
type batches struct {
	drivertest.Driver
	calls, renewed *atomic.Int64
}

func (d batches) Run(ctx context.Context, call driver.Call) (string, error) {
	if does(call.Script, "renew") {
		d.calls.Add(1)
		if call.Script.Name == "renew" {
			d.renewed.Add(1)
		} else {
			d.renewed.Add(int64(len(call.Keys)))
		}
	}
	return d.Driver.Run(ctx, call)
}

// A few commands keep many leases on a distant server.
func TestManyLeasesAreRenewedByFewCommands(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var calls, renewed atomic.Int64
		c := client(t, srv, func(d drivertest.Driver) drivertest.Driver {
			return batches{overseas{d, 10 * time.Millisecond}, &calls, &renewed}
		})
		const leases, ttl = 2000, 6 * time.Second
		all := make([]*holdfast.Lease, leases)
		var acquiring sync.WaitGroup
		for i := range all {
			acquiring.Go(func() {
				var err error
				if all[i], err = c.Mutex(fmt.Sprint(i), holdfast.TTL(ttl)).Acquire(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		acquiring.Wait()
		time.Sleep(2 * ttl)
		if n := renewed.Load(); n < 4*leases || calls.Load() > n/8 {
			t.Errorf("%d calls have renewed %d times %d leases", calls.Load(), n, leases)
		}
		for _, lease := range all {
			if lease == nil {
				continue
			}
			if err := lease.Err(); err != nil {
				t.Errorf("%s: %v", lease.Name(), err)
			}
			release(t, lease)
		}
	})
}

// hanging is the driver of a server that answers no renewals for a time. It counts those of one lock.
type hanging struct {
	drivertest.Driver
	hangs         *atomic.Bool
	many, singles *atomic.Int64
}

func (d hanging) Run(ctx context.Context, call driver.Call) (string, error) {
	if call.Script.Name == "renew" {
		d.singles.Add(1)
	}
	if does(call.Script, "renew") && d.hangs.Load() {
		d.many.Add(1)
		<-ctx.Done()
		return "", ctx.Err()
	}
	return d.Driver.Run(ctx, call)
}

// Behind many renewals that hang, others are retried later, and not each by itself.
func TestRenewalsBehindManyThatHangArePutOff(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var hangs atomic.Bool
		var many, singles atomic.Int64
		c := configured(t, srv, holdfast.Config{CommandTimeout: 10 * time.Second, RetryTimeout: 20 * time.Second},
			func(d drivertest.Driver) drivertest.Driver { return hanging{d, &hangs, &many, &singles} })
		var leases []*holdfast.Lease
		for i := range 100 {
			lease, err := c.Mutex(fmt.Sprint(i), holdfast.TTL(30*time.Second)).Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, lease)
			time.Sleep(90 * time.Millisecond)
		}
		hangs.Store(true)
		time.Sleep(14 * time.Second)
		hangs.Store(false)
		time.Sleep(30 * time.Second)
		if many.Load() < 16 || singles.Load() > 0 {
			t.Errorf("%d renewals hung, %d were of one lock; want 16 or more, and none", many.Load(), singles.Load())
		}
		for _, lease := range leases {
			if err := lease.Err(); err != nil {
				t.Errorf("%s: %v", lease.Name(), err)
			}
			release(t, lease)
		}
	})
}

// A lock that was handed over and is held for a moment costs no renewal. If it is held longer, its claim is
// renewed in time.
func TestAClaimIsRenewedOnceItIsHeldForAWhile(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var calls atomic.Int64
		const ttl = 10 * time.Second
		count := func(d drivertest.Driver) drivertest.Driver { return renewals{d, &calls} }
		a := client(t, srv, count).Mutex("m", holdfast.TTL(ttl))
		b := client(t, srv, count).Mutex("m", holdfast.TTL(ttl))
		lease := acquire(t, a)
		for range 4 {
			w := wait(t, b)
			release(t, lease)
			if <-w.done; w.err != nil {
				t.Fatal(w.err)
			}
			lease = w.lease
			a, b = b, a
			if left := time.Until(lease.Deadline()); left > ttl/2 {
				t.Errorf("it was handed over for %s", left)
			}
			calls.Store(0)
			time.Sleep(4 * time.Millisecond)
			if n := calls.Load(); n != 0 {
				t.Errorf("%d renewals in the first 4 ms", n)
			}
			time.Sleep(2 * time.Millisecond)
			if n, left := calls.Load(), time.Until(lease.Deadline()); n != 1 || left < ttl*9/10 {
				t.Errorf("after 6 ms: %d renewals, %s left", n, left)
			}
		}
		release(t, lease)
	})
}

// tardy is a driver whose renewals are answered late.
type tardy struct {
	drivertest.Driver
	by time.Duration
}

func (d tardy) Run(ctx context.Context, call driver.Call) (string, error) {
	reply, err := d.Driver.Run(ctx, call)
	if does(call.Script, "renew") {
		time.Sleep(d.by)
	}
	return reply, err
}

// A renewal counts from its sending, not from its answer: no lease lasts longer than the server keeps its lock.
func TestALeaseEndsBeforeTheServersWhenRenewalsAreAnsweredLate(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		const ttl, late = 10 * time.Second, 1500 * time.Millisecond
		c, rdb := configured(t, srv, cfg, func(d drivertest.Driver) drivertest.Driver { return tardy{d, late} }), server(t, srv)
		var leases []*holdfast.Lease
		for i := range 5 {
			leases = append(leases, acquire(t, c.Mutex(fmt.Sprint(i), holdfast.TTL(ttl))))
		}
		renewed := 0
		for last := leases[0].Deadline(); renewed < 3; time.Sleep(late / 5) {
			if at := leases[0].Deadline(); at.After(last) {
				renewed++
				last = at
			}
			for _, lease := range leases {
				// The server expires a key as soon as the millisecond that it names begins.
				left := rdb.PTTL(t.Context(), "holdfast:{"+lease.Name()+"}").Val()
				if own := time.Until(lease.Deadline()); own > left {
					t.Fatalf("the lease of %s lasts for another %s, its lock for %s", lease.Name(), own, left)
				}
				if err := lease.Err(); err != nil {
					t.Fatalf("%s: %v", lease.Name(), err)
				}
			}
		}
		for _, lease := range leases {
			release(t, lease)
		}
	})
}
