package virtual

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Leases that were acquired at different times are renewed together, on a distant server, too.
func TestRenewalsWaitForEachOther(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		var calls atomic.Int64
		var far atomic.Bool
		far.Store(true)
		c := configured(t, srv, cfg, counted("renew", &calls), belated("renew", 10*time.Millisecond, &far))
		const ttl, n = 12 * time.Second, 100
		var leases []*holdfast.Lease
		for i := range n {
			leases = append(leases, acquire(t, c.Mutex(fmt.Sprint(i), holdfast.TTL(ttl))))
			time.Sleep(ttl / 3 / n)
		}
		calls.Store(0)
		const periods = 6
		time.Sleep(periods * ttl / 3)
		// There are three calls for each of the sixteen slots of a period, since the first of a slot do not
		// wait.
		expect.Between(t, "calls", calls.Load(), periods, periods*16*3)
		alive(t, leases)
	})
}

// A lock that was handed over and is held for a moment costs no renewal. If it is held longer, its claim is
// renewed in time.
func TestAClaimIsRenewedOnceItIsHeldForAWhile(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var calls atomic.Int64
		const ttl = 10 * time.Second
		a := client(t, srv, counted("renew", &calls)).Mutex("m", holdfast.TTL(ttl))
		b := client(t, srv, counted("renew", &calls)).Mutex("m", holdfast.TTL(ttl))
		lease := acquire(t, a)
		for range 4 {
			w := wait(t, b)
			release(t, lease)
			w.granted(t)
			lease = w.lease
			a, b = b, a
			expect.Between(t, "for how long it was handed over", time.Until(lease.Deadline()), 0, ttl/2)
			calls.Store(0)
			time.Sleep(4 * time.Millisecond)
			expect.Equal(t, "renewals in the first 4 ms", calls.Load(), 0)
			time.Sleep(2 * time.Millisecond)
			if n, left := calls.Load(), time.Until(lease.Deadline()); n != 1 || left < ttl*9/10 {
				t.Errorf("after 6 ms: %d renewals, %s left", n, left)
			}
		}
		release(t, lease)
	})
}

// Fault: Answers take longer than one try may take, but less than a lease lasts. The lease is kept, and counts from the sending: it ends no
// later than the server's lock.
//
// Bug: Expiry is measured from the wrong time.
func TestALeaseEndsBeforeTheServersWhenRenewalsAreAnsweredLate(t *testing.T) {
	for _, late := range []time.Duration{1500 * time.Millisecond, 3100 * time.Millisecond} {
		eachWayOf(t, late.String(), func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			const ttl = 10 * time.Second
			var on atomic.Bool
			on.Store(true)
			cfg.CommandTimeout = 5 * time.Minute
			c, rdb := configured(t, srv, cfg, belated("renew", late, &on)), server(t, srv)
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
					expect.AtMost(t, "the lease's time, with that of its lock as the most", time.Until(lease.Deadline()), left)
					expect.OK(t, lease.Err())
				}
			}
			for _, lease := range leases {
				release(t, lease)
			}
		})
	}
}

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
		expect.OK(t, lease.Err())
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
				expect.Between(t, "when the context ends, of which a minute was left", time.Since(begun), 0, time.Minute)
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
			lostBy(t, context.Cause(ctx), holdfast.LossExpired)
		}
		for _, lease := range leases {
			expect.Err(t, lease.Name()+": Err", lease.Err(), holdfast.ErrLost)
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
		expect.Err(t, "Release", first.lease.Release(t.Context()), holdfast.ErrLost)
		second.served(t, time.Minute)
		third.served(t, time.Minute)
		expect.Rises(t, first.lease.Fence(), second.lease.Fence())
	})
}

// The bounds of several locks apply once all are held. What happened while the caller waited for the last one does not count,
// even if a renewal is still under way at that moment.
func TestBoundsOfSeveralLocksCountFromWhenAllAreHeld(t *testing.T) {
	const ttl = 12 * time.Second
	for name, test := range map[string]struct {
		bound    holdfast.MultiOption
		lasts    time.Duration // at least; at most a tenth more
		renewals int           // of each lock, after all are held
		reason   holdfast.LossReason
	}{
		"NoRenew":        {holdfast.NoRenew(), ttl * 95 / 100, 0, holdfast.LossExpired},
		"MaxRenewals(1)": {holdfast.MaxRenewals(1), ttl, 1, holdfast.LossBound},
		"MaxRenewals(3)": {holdfast.MaxRenewals(3), ttl * 5 / 3, 3, holdfast.LossBound},
		"MaxHold short":  {holdfast.MaxHold(ttl / 2), ttl * 49 / 100, -1, holdfast.LossBound},
		"MaxHold long":   {holdfast.MaxHold(3 * ttl), ttl * 29 / 10, -1, holdfast.LossBound},
	} {
		eachWayOf(t, name, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			begun := make(chan string) // receives the key of a renewal, if somebody listens
			var mu sync.Mutex
			sent := map[string][]time.Time{} // when renewals of a key were sent
			c := configured(t, srv, cfg, meddle(func(r request) (string, error) {
				if !r.does("renew") {
					return r.send()
				}
				reply, err := r.send()
				mu.Lock()
				for _, key := range r.Keys {
					sent[key] = append(sent[key], time.Now())
					select {
					case begun <- key:
					default:
					}
				}
				mu.Unlock()
				time.Sleep(200 * time.Millisecond)
				return reply, err
			}))
			since := func(key string, from time.Time) int {
				mu.Lock()
				defer mu.Unlock()
				return len(slices.DeleteFunc(slices.Clone(sent[key]), func(at time.Time) bool { return at.Before(from) }))
			}
			other := client(t, srv)
			l := c.Multi([]string{"a", "b"}, holdfast.TTL(ttl), test.bound)
			check := func(how string, lease *holdfast.Lease, from time.Time) {
				t.Helper()
				held := time.Now()
				<-lease.Done()
				lasted := time.Since(held)
				lostBy(t, lease.Err(), test.reason)
				expect.Between(t, how+": how long the lease lasts", lasted, test.lasts, max(test.lasts*11/10, test.lasts+ttl/3*2))
				for _, key := range []string{"holdfast:{a}", "holdfast:{b}"} {
					// A lock that was handed over is confirmed by one more.
					if n := since(key, from); test.renewals >= 0 && (n < test.renewals || n > test.renewals+1) {
						t.Errorf("%s: %s was renewed %d times; want %d", how, key, n, test.renewals)
					}
				}
				if n := since("holdfast:{a}", from); test.renewals >= 0 && n != test.renewals && test.reason == holdfast.LossBound {
					t.Errorf("%s: the first lock was renewed %d times; want %d", how, n, test.renewals)
				}
				_ = lease.Release(context.Background())
				time.Sleep(ttl)
			}
			from := time.Now()
			check("at once", acquire(t, l), from)

			blocking := acquire(t, other.Mutex("b"))
			w := wait(t, l)
			for range 5 { // the fifth renewal of a is under way
				for <-begun != "holdfast:{a}" {
				}
			}
			if test.renewals == 0 {
				time.Sleep(ttl / 4) // part of the TTL of a is over
			}
			time.Sleep(time.Millisecond)
			release(t, blocking)
			w.granted(t)
			check("after a wait", w.lease, w.at.Add(-time.Microsecond))
		})
	}
}
