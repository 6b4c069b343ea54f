package virtual

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Fault: The server does not answer, or refuses, while somebody waits for a lock: in its queue, or by polling, because the server forbids
// pub/sub. The waiter waits on, and looks again soon.
func TestWaitersOutliveOutagesAndRefusals(t *testing.T) {
	for what, polls := range map[string]bool{"queued": false, "polling": true} {
		eachWayOf(t, what, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			d := unheard{refused: driver.ReplyError("NOPERM this user has no permissions to access one of the channels")}
			wrap := d.wrap
			if !polls {
				wrap = d.moody.wrap
			}
			lease := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(time.Hour)))
			w := wait(t, configured(t, srv, cfg, wrap).Mutex("a"))
			time.Sleep(10 * time.Second)
			d.hangs.Store(true)
			time.Sleep(time.Minute)
			d.hangs.Store(false)
			d.refuse(driver.ReplyError("OOM command not allowed when used memory > 'maxmemory'."))
			server(t, srv).Del(t.Context(), "holdfast:{a}") // as if it had expired
			time.Sleep(time.Minute)
			select {
			case <-w.done:
				t.Fatalf("the wait has ended: %v", w.err)
			default:
			}
			d.refuse(nil)
			w.served(t, 5*time.Second)
			_ = lease.Release(t.Context())
		})
	}
}

// Fault: The reply to an enqueue is lost, and the waiter is handed the lock meanwhile. It learns that from the answer
// to its repeated enqueue, as if it had just acquired the lock.
func TestLockHandedOverBehindALostReplyIsAWholeLease(t *testing.T) {
	for _, renew := range []bool{true, false} {
		eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			const ttl = 12 * time.Second // a claim is an eighth of it
			var lost atomic.Bool
			cfg.CommandTimeout = 800 * time.Millisecond
			l := configured(t, srv, cfg, meddle(func(r request) (string, error) {
				if r.Script.Name != "acquire" || r.Args[0][0] != 'w' || lost.Swap(true) {
					return r.send()
				}
				_, _ = r.send()
				return r.hang()
			})).Mutex("a", holdfast.TTL(ttl), backend.Renew(renew))
			lease := acquire(t, client(t, srv).Mutex("a"))
			next := waitFor(t, l, 100*time.Millisecond)
			expect.Equal(t, "the reply to its enqueue is lost", lost.Load(), true)
			released := time.Now()
			release(t, lease) // before the repeat
			next.granted(t)
			expect.AtLeast(t, "the lease's time", next.lease.Deadline().Sub(released), ttl/2)
			expect.Between(t, "how long the lease lasts, at most like the lock", time.Until(next.lease.Deadline()), 0, left(t, srv, "a"))
			time.Sleep(2 * ttl)
			expect.Equal(t, "it is renewed", next.lease.Err() == nil, renew)
			_ = next.lease.Release(t.Context())
		})
	}
}

// Fault: The answers to an Extend and to a later renewal come in the wrong order. The Extend, which was sent first
// and asked for more, counts.
func TestExtendAnsweredAfterALaterRenewalCounts(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		cfg := holdfast.Config{CommandTimeout: 5 * time.Minute, ViaClient: true}
		// A second renewal would tell the client how long the lock really lasts.
		lease := acquire(t, configured(t, srv, cfg, meddle(func(r request) (string, error) {
			if r.Script.Name == "renew" && r.Args[2] == "3600000" {
				time.Sleep(4 * time.Second)
			}
			return r.send()
		})).Mutex("a", holdfast.TTL(6*time.Second), holdfast.MaxRenewals(1)))
		first, began := lease.Deadline(), time.Now()
		extended := async(func() error { return lease.Extend(t.Context(), time.Hour) })
		time.Sleep(3 * time.Second)
		if at := lease.Deadline(); !at.After(first) || at.Sub(began) > time.Minute {
			t.Errorf("the renewal was not answered first: the lease lasts for %s", at.Sub(began))
		}
		expect.OK(t, <-extended)
		own, left := time.Until(lease.Deadline()), left(t, srv, "a")
		expect.Between(t, "how long the lease lasts, at most like the lock", own, 59*time.Minute, left)
		release(t, lease)
	})
}

// Fault: A renewal that is never answered is under way when the client closes. Close ends with its context.
func TestCloseEndsWithItsContextWhileACommandHangs(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		cfg.CommandTimeout = time.Minute
		c, way := tapped(t, srv, cfg)
		acquire(t, c.Mutex("a", holdfast.TTL(6*time.Second)))
		way.set(func() { way.deaf = true })
		time.Sleep(3 * time.Second)
		ctx := lasting(t, 100*time.Millisecond)
		began := time.Now()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 100*time.Millisecond {
			t.Errorf("Close: %v, after %s", err, time.Since(began))
		}
		way.set(func() { way.deaf = false })
	})
}

// Two goroutines share a Lock. If one releases twice, or too late, that affects only its own lease, even if the
// other was passed the lock within the process, with the same token.
//
// Bug: Two goroutines share a handle, and one releases the other's lock, by releasing twice or too late.
func TestAReleaseIsOfItsOwnLeaseOnly(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		l := configured(t, srv, cfg).Mutex("a", holdfast.TTL(time.Minute))
		intact := func(lease *holdfast.Lease) {
			t.Helper()
			if !isHeld(t, client(t, srv)) || lease.Err() != nil {
				t.Errorf("the other goroutine's lease: %v; held: %t", lease.Err(), isHeld(t, client(t, srv)))
			}
		}
		first := acquire(t, l)
		second, third := wait(t, l), wait(t, l)
		release(t, first)
		<-second.done
		time.Sleep(20 * time.Millisecond) // until it has reserved a fence
		release(t, second.lease)
		<-third.done
		release(t, second.lease)
		release(t, first)
		intact(third.lease)
		release(t, third.lease)

		first = acquire(t, l)
		server(t, srv).Del(t.Context(), "holdfast:{a}")
		next := expect.Of(l.TryAcquire(t.Context())).OK(t)
		expect.Err(t, "Release of the lost lease", first.Release(t.Context()), holdfast.ErrLost)
		intact(next)
		release(t, next)
	})
}

// After a loss, or a release at whatever moment, nothing is renewed.
//
// Bug: A renewal is armed after the release, or goes on after a loss.
func TestNothingIsRenewedAfterTheEnd(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		const ttl, interval = 6 * time.Second, 2 * time.Second // of renewals, with a jitter of a twentieth
		var renewed atomic.Int64
		c := configured(t, srv, cfg, counted("renew", &renewed))
		var leases []*holdfast.Lease
		for n := range 40 {
			leases = append(leases, acquire(t, c.Mutex(fmt.Sprint(n), holdfast.TTL(ttl))))
		}
		time.Sleep(interval - interval/20)
		for _, lease := range leases { // before, in the middle of and after a renewal
			time.Sleep(interval / 10 / time.Duration(len(leases)))
			release(t, lease)
		}
		renewed.Store(0)
		time.Sleep(time.Minute)
		expect.Equal(t, "renewals after the releases", renewed.Load(), 0)
		lease := acquire(t, c.Mutex("a", holdfast.TTL(ttl)))
		server(t, srv).Set(t.Context(), "holdfast:{a}", "theirs", time.Hour)
		<-lease.Done()
		lostBy(t, lease.Err(), holdfast.LossTaken)
		renewed.Store(0)
		time.Sleep(time.Minute)
		expect.Equal(t, "renewals after the loss", renewed.Load(), 0)
		expect.Equal(t, "the other's value", server(t, srv).Get(t.Context(), "holdfast:{a}").Val(), "theirs")
	})
}

// A waiter behind a dead one does not keep asking whether it is gone.
//
// Bug: The head of the queue is dead, and the others spin.
func TestADeadHeadCostsNoCommands(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		holder := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(time.Minute), holdfast.NoRenew()))
		// The dead one has just come: one that came long ago is dropped by the next that comes.
		dead := redis.Z{Score: float64(time.Now().UnixMicro()), Member: "dead\n1500\nholdfast:c:dead\n{}"}
		expect.OK(t, server(t, srv).ZAdd(t.Context(), "holdfast:{a}:q", dead).Err())
		var asked atomic.Int64
		var waits []*waiting
		for range 3 {
			waits = append(waits, wait(t, client(t, srv, counted("acquire", &asked)).Mutex("a")))
		}
		asked.Store(0)
		time.Sleep(2 * time.Second)
		if n := asked.Load(); n > 3 { // at most one look each
			t.Errorf("%d looks in 2 s", n)
		}
		release(t, holder)
		for _, w := range waits {
			w.served(t, 3*time.Second)
		}
	})
}

// The error of a caller that gave up waiting names the holder, and the number of waiters without the caller.
func TestAWaiterThatGaveUpIsNotCounted(t *testing.T) {
	for what, lock := range map[string]func(c *holdfast.Client) *holdfast.Lock{
		"mutex":     func(c *holdfast.Client) *holdfast.Lock { return c.Mutex("a") },
		"semaphore": func(c *holdfast.Client) *holdfast.Lock { return c.Semaphore("a", 1).Permits(1) },
		"writer":    func(c *holdfast.Client) *holdfast.Lock { return c.RWMutex("a").Writer() },
	} {
		eachWayOf(t, what, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			lease := acquire(t, lock(client(t, srv)))
			defer release(t, lease)
			l := lock(configured(t, srv, cfg, meddle(func(r request) (string, error) {
				if r.Urgent { // a release
					time.Sleep(100 * time.Millisecond)
				}
				return r.send()
			})))
			for round := range 3 { // the first waiter asks before it is subscribed, those after it when they are
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				expect.Err(t, "Acquire", expect.ErrOf(l.Acquire(ctx)), context.DeadlineExceeded)
				cancel()
				expect.Of(backend.Waiting(t.Context(), l)).Is(t, fmt.Sprintf("round %d: those that are counted as waiting", round), 0)
			}
			other := wait(t, l)
			ctx := lasting(t, time.Second)
			expect.Err(t, "Acquire", expect.ErrOf(l.Acquire(ctx)), context.DeadlineExceeded)
			begun := time.Now()
			if waiting, err := backend.Waiting(t.Context(), l); err != nil || waiting != 1 || time.Since(begun) > 50*time.Millisecond {
				t.Errorf("%d are counted that wait, and one does: %v, after %s", waiting, err, time.Since(begun))
			}
			other.giveUp()
		})
	}
}

// Fault: An old, shorter renewal arrives after a newer, longer one. Nothing is shortened, and the holder believes no
// more than the server grants.
func TestLateRenewal(t *testing.T) {
	for kind, lock := range kinds {
		if kind == "several" {
			continue // each of them is renewed by itself
		}
		eachWayOf(t, kind, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			var met atomic.Bool
			copies := make(chan request, 1)
			l := lock(configured(t, srv, cfg, meddle(func(r request) (string, error) {
				if !strings.Contains(r.Script.Name, "renew") || met.Swap(true) {
					return r.send()
				}
				copies <- r
				return "", errNoAnswer
			})), holdfast.TTL(5*time.Second))
			lease := acquire(t, l)
			late := <-copies
			expect.OK(t, lease.Extend(t.Context(), time.Minute))
			if reply, err := late.anyhow(); err != nil || !strings.HasPrefix(reply, "kept ") && !strings.HasPrefix(reply, "renewed ") {
				t.Errorf("the late copy is answered %q, %v", reply, err)
			}
			h, err := backend.HolderOf(t.Context(), lock(client(t, srv)))
			if own := time.Until(lease.Deadline()); err != nil || own < 50*time.Second || own > h.TTL {
				t.Errorf("extended by a minute, the lease lasts for %s, the lock for %s: %v", own, h.TTL, err)
			}
			release(t, lease)
			_, _ = late.anyhow()
			expect.Of(backend.IsHeld(t.Context(), l)).Is(t, "after the release it is held", false)
		})
	}
}
