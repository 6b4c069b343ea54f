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

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// A tombstone that ends in the very microsecond in which a copy of its acquire arrives lets the copy pass: the
// copy must refuse itself.
func TestACopyAtItsNotAfterIsLate(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		rdb := server(t, srv)
		eval := func(s script.Script, args ...any) string {
			return expect.Of(rdb.Eval(t.Context(), s.Source, []string{"{k}", "{k}:q", "{k}:f"}, args...).Text()).OK(t)
		}
		now := expect.Of(rdb.Time(t.Context()).Result()).OK(t)
		notAfter := now.UnixMicro() // it stays that time, as nobody sleeps
		expect.Begins(t, "the release's answer", eval(script.Release(), "", "A", "", notAfter), "absent")
		if reply := eval(script.Acquire(), "t", "A", 60000, notAfter, 1, `{"o":"me"}`); !strings.HasPrefix(reply, "late") {
			t.Errorf("a copy of the acquire after its release is answered %q", reply)
		}

		// A tombstone in a queue that nobody keeps alive, since its waiter is dead, lasts as long as it must.
		rdb.ZAdd(t.Context(), "{k}:q", redis.Z{Score: float64(notAfter), Member: "dead\n1500\nholdfast:c:dead\n{}"})
		rdb.PExpire(t.Context(), "{k}:q", time.Second)
		notAfter += time.Hour.Microseconds()
		eval(script.Release(), "", "B", "", notAfter)
		time.Sleep(59 * time.Minute)
		expect.Begins(t, "the answer to a copy of the acquire after its release", eval(script.Acquire(), "t", "B", 60000, notAfter, 1, `{"o":"me"}`), "gone")
	})
}

// Fault: A grant comes past the deadline of the short lease that its caller wanted. That caller fails, and not the
// goroutine that is first in the wait queue by then.
func TestALateReplyIsNoFailureOfSomebodyElse(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		lease := acquire(t, client(t, srv).Mutex("a"))
		var late atomic.Bool
		c := configured(t, srv, cfg, belated("acquire", 200*time.Millisecond, &late))
		// Without renewals the lock must be confirmed after a hand-over.
		first := wait(t, c.Mutex("a", holdfast.TTL(50*time.Millisecond), holdfast.NoRenew()))
		second := wait(t, c.Mutex("a"))
		late.Store(true)
		release(t, lease)
		time.Sleep(100 * time.Millisecond)
		first.giveUp()
		second.served(t, 5*time.Second)
	})
}

// Fault: The reply that grants a lock, or several, takes longer than the lease lasts. The acquire fails, and all is given back at
// once, though the server would keep it for another millisecond.
func TestAGrantPastItsDeadlineIsGivenBack(t *testing.T) {
	for kind, lock := range kinds {
		eachWayOf(t, kind, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			l := lock(configured(t, srv, cfg, meddle(func(r request) (string, error) {
				if strings.Contains(r.Script.Name, "acquire") {
					return r.late(200 * time.Millisecond)
				}
				return r.send()
			})), holdfast.TTL(201*time.Millisecond))
			for name, get := range map[string]func(context.Context) (*holdfast.Lease, error){"TryAcquire": l.TryAcquire, "Acquire": l.Acquire} {
				expect.ErrBut(t, name, expect.ErrOf(get(t.Context())), holdfast.ErrUnavailable, holdfast.ErrHeld)
				synctest.Wait()
				expect.Of(backend.IsHeld(t.Context(), l)).Is(t, "after "+name+" it is held", false)
			}
		})
	}
}

// near is the driver of a server that is a millisecond away.
var near = meddle(func(r request) (string, error) {
	time.Sleep(time.Millisecond)
	return r.send()
})

// Fault: The answer that grants a queued waiter a short lease is late. The waiter tries again. If every answer takes longer than a
// lease lasts, Acquire fails and says so.
func TestAWaiterOutlivesALateAnswer(t *testing.T) {
	for late, succeeds := range map[int64]bool{1: true, 1000: false} {
		eachWayOf(t, fmt.Sprint(late), func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			var left atomic.Int64
			lease := acquire(t, client(t, srv).Mutex("a"))
			c := configured(t, srv, cfg, near, meddle(func(r request) (string, error) {
				if r.does("acquire") && left.Add(-1) >= 0 {
					return r.late(200 * time.Millisecond)
				}
				return r.send()
			}))
			// Without renewals the lock must be confirmed after a hand-over.
			first := wait(t, c.Mutex("a", holdfast.TTL(50*time.Millisecond), holdfast.NoRenew()))
			left.Store(late)
			release(t, lease)
			<-first.done
			if !succeeds {
				if !errors.Is(first.err, holdfast.ErrUnavailable) ||
					!strings.Contains(first.err.Error(), "it lasts for 50ms, and the server answers within ") {
					t.Errorf("%v, %v", first.lease, first.err)
				}
			} else if first.err != nil {
				t.Errorf("Acquire: %v", first.err)
			} else {
				_ = first.lease.Release(t.Context()) // it may have expired
			}
		})
	}
}

// If ctx leaves Release less time than the server needs, the error does not say that the server is unavailable.
func TestReleaseWithTooLittleTime(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		l := configured(t, srv, cfg, near).Mutex("a")
		lease := acquire(t, l)
		ctx := lasting(t, 10*time.Microsecond)
		err := lease.Release(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, holdfast.ErrUnavailable) ||
			!strings.Contains(err.Error(), "the server had 10µs to answer") {
			t.Errorf("Release: %v", err)
		}
		time.Sleep(time.Second)
		release(t, acquire(t, l))
	})
}

// Fault: A release arrives after the lease has ended, and finds the lock gone, or in other hands. Nobody deleted it, or took it
// before its time: it had expired.
func TestALockThatExpiredBeforeItsReleaseArrivedWasNotDeleted(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		cfg.CommandTimeout = 5 * time.Second
		l := configured(t, srv, cfg, meddle(func(r request) (string, error) {
			if r.does("release") {
				time.Sleep(2 * time.Second)
			}
			return r.send()
		})).Mutex("a", holdfast.TTL(time.Second), holdfast.NoRenew())
		for _, taken := range []bool{false, true} {
			lease := acquire(t, l)
			var next *waiting
			if taken {
				next = inLine(t, client(t, srv).Mutex("a"))
			}
			lostBy(t, lease.Release(t.Context()), holdfast.LossExpired)
			if taken {
				next.served(t, 5*time.Second)
			}
		}
	})
}

// The published grant is true except for its claim, which is far longer than the waiter asked for. The server
// ends the lock after the claim that was asked for, so the lease must end by then, too.
func TestAPublishedClaimIsNoLongerThanTheOneAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var forged atomic.Int64
		promise := overhear(func(message string, tell func(string)) {
			if words := strings.Split(message, " "); words[1] == "grant" { // hf2 grant TOKEN NOW CLAIM FENCE KEY
				words[4] = "3600000"
				message = strings.Join(words, " ")
				forged.Add(1)
			}
			tell(message)
		})
		lock := func(c *holdfast.Client) *holdfast.Lock { return c.Mutex("a", holdfast.TTL(time.Minute)) }
		lease := acquire(t, lock(client(t, srv)))
		w := wait(t, lock(client(t, srv, promise)))
		release(t, lease)
		w.granted(t)
		expect.Equal(t, "grants published", forged.Load(), 1)
		own, left := time.Until(w.lease.Deadline()), left(t, srv, "a")
		if own > left || left > 10*time.Second {
			t.Errorf("the lease lasts for another %s, its lock for %s", own, left)
		}
		release(t, w.lease)
	})
}
