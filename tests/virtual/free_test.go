package virtual

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// The command that sets a lock does not see that somebody waits for it. What it sets is no grant: the waiter gets the lock at once,
// also if another lock was set in the same transaction. A script does not set the lock.
func TestALockThatIsSetPastAQueue(t *testing.T) {
	for what, beside := range map[string]bool{"alone": false, "beside another": true} {
		eachWayOf(t, what, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			c, way := tapped(t, srv, cfg)
			holder := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(10*time.Minute)))
			next := wait(t, client(t, srv).Mutex("a", holdfast.TTL(10*time.Minute)))
			server(t, srv).Del(t.Context(), "holdfast:{a}")
			var all sync.WaitGroup
			if beside { // what comes while a first request is being written leaves together
				release(t, acquire(t, c.Mutex("first"))) // which connects
				way.set(func() { way.slow = "{first}" })
				for _, name := range []string{"first", "b"} {
					all.Go(func() { release(t, acquire(t, c.Mutex(name))) })
					time.Sleep(time.Millisecond)
				}
			}
			if lease, err := c.Mutex("a").TryAcquire(t.Context()); err == nil {
				t.Error("the waiter was passed")
				release(t, lease)
			} else if !errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("TryAcquire: %v", err)
			}
			time.AfterFunc(time.Minute, next.cancel)
			next.served(t, time.Second)
			all.Wait()
			if n := way.sent("EXISTS\r\n$14\r\nholdfast:{b}:q\r\n$14\r\nholdfast:{a}:q"); beside && !cfg.ViaClient && n != 1 {
				t.Error("the locks did not leave together")
			}
			expect.Equal(t, "something was set", way.sent("MULTI") > 0, !cfg.ViaClient)
			_ = holder.Release(t.Context())
		})
	}
}

// Fault: The connection breaks on which a client has sent its first transactions, and another one later. The next locks are not acquired
// by scripts for that.
func TestTheFirstTransactionIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		w := &tap{srv: srv, silences: "PXAT"}
		c := w.client(t, holdfast.Config{CommandTimeout: time.Second})
		var both sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			both.Go(func() { release(t, acquire(t, c.Mutex(name))) })
		}
		both.Wait()
		release(t, acquire(t, c.Mutex("c")))
		expect.Equal(t, "locks that were set", w.sent("PXAT"), 3)
		// Later, too, connections break.
		w.set(func() { w.silences = "PXAT" })
		release(t, acquire(t, c.Mutex("d")))
		release(t, acquire(t, c.Mutex("e")))
		expect.Equal(t, "locks that were set", w.sent("PXAT"), 5)
	})
}

// Fault: The transaction that acquires a lock is delayed for longer than its caller waits for the answer. The caller goes on with another
// token, and what the copy sets when it comes is released within seconds.
func TestASetThatIsNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c, way := tapped(t, srv, holdfast.Config{CommandTimeout: time.Second, TTL: 10 * time.Minute})
		way.set(func() { way.holds = "PXAT" })
		release(t, acquire(t, c.Mutex("a")))
		release(t, acquire(t, c.Mutex("b")))
		expect.Equal(t, "locks that were set", way.sent("MULTI"), 2)
		time.Sleep(2 * time.Second) // meanwhile releases of the former token have been answered
		way.deliver(t)
		expect.Equal(t, "the lock is set", exists(t, srv, "a"), true)
		time.Sleep(6 * time.Second)
		expect.Equal(t, "the lock is set", exists(t, srv, "a"), false)
		// From then on nothing more is released.
		before := way.sent(script.Release().SHA1)
		time.Sleep(time.Hour)
		expect.Equal(t, "releases, with those of a token that had been released", way.sent(script.Release().SHA1), before)
	})
}

// Fault: Many transactions that acquire locks are not answered, and may still come. Their locks are released again and again, but not all
// in the same moment. If the server does not answer the releases, few are under way. It ends when the locks would have expired.
func TestManySetsThatAreNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		const locks, ttl = 150, time.Minute
		c, way := tapped(t, srv, holdfast.Config{CommandTimeout: time.Second, TTL: ttl})
		release(t, acquire(t, c.Mutex("a"))) // which opens the connection
		way.set(func() { way.deaf = true })
		var acquiring sync.WaitGroup
		for i := range locks {
			acquiring.Go(func() { release(t, acquire(t, c.Mutex(fmt.Sprint("a", i)))) })
		}
		time.Sleep(500 * time.Millisecond)
		way.set(func() { way.deaf = false }) // before all are given up in the same moment
		acquiring.Wait()
		releases := func() int { return way.sent(script.Release().SHA1) }
		from, most := releases(), 0
		for last := from; releases() < from+locks; {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			n := releases()
			most, last = max(most, n-last), n
		}
		expect.Between(t, "releases within a ms", most, 0, locks/2)
		way.set(func() { way.deaf = true })
		from = releases()
		time.Sleep(900 * time.Millisecond)
		expect.Between(t, "releases under way", releases()-from, 1, locks/2)
		way.set(func() { way.deaf = false })
		time.Sleep(ttl)
		from = releases()
		time.Sleep(time.Hour)
		expect.Equal(t, "releases, with those after the locks' expiry", releases(), from)
	})
}

// Fault: The transaction that acquires a lock arrives after the lock's expiry. It sets nothing.
func TestASetThatComesAfterItsExpiry(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		const ttl = 5 * time.Second
		c, way := tapped(t, srv, holdfast.Config{CommandTimeout: time.Second, TTL: ttl})
		way.set(func() { way.holds = "PXAT" })
		release(t, acquire(t, c.Mutex("a")))
		time.Sleep(ttl)
		way.deliver(t)
		time.Sleep(time.Millisecond) // the embedded server sets it for as long
		expect.Equal(t, "the lock is set", exists(t, srv, "a"), false)
	})
}

// A caller gives up while its acquire is under way, and returns at once. What the acquire sets later is released within seconds.
func TestASetWhoseCallerGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c, way := tapped(t, srv, holdfast.Config{TTL: 10 * time.Minute})
		release(t, acquire(t, c.Mutex("a")))
		way.set(func() { way.holds = "PXAT" })
		ctx := lasting(t, 100*time.Millisecond)
		begun := time.Now()
		if _, err := c.Mutex("a").Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 100*time.Millisecond {
			t.Errorf("Acquire: %v, after %s", err, time.Since(begun))
		}
		time.Sleep(10 * time.Second)
		way.deliver(t)
		expect.Equal(t, "the lock is set", exists(t, srv, "a"), true)
		time.Sleep(6 * time.Second)
		expect.Equal(t, "the lock is set", exists(t, srv, "a"), false)
	})
}

// Fault: Another program uses the key of the fence counter. The transaction sets the lock before it fails, so the lock is released.
func TestATransactionThatIsDoneInPart(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		server(t, srv).Set(t.Context(), "holdfast:fences", "theirs", 0)
		c, way := tapped(t, srv, holdfast.Config{})
		if _, err := c.Mutex("a").TryAcquire(t.Context()); err == nil || errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("TryAcquire: %v", err)
		}
		time.Sleep(time.Second)
		if exists(t, srv, "a") || way.sent("MULTI") != 1 {
			t.Errorf("the lock is set: %t, by one of %d transactions", exists(t, srv, "a"), way.sent("MULTI"))
		}
	})
}

// Fault: A client is wrong about the server's clock, because a connection stalled while it was opened or because the clock was
// set. The lock still lasts for about its TTL, and the lease no longer than the lock. The next acquire uses the right time.
func TestAMisjudgedServerClock(t *testing.T) {
	const ttl = 10 * time.Second
	const second, ms = time.Second, time.Millisecond
	for _, ahead := range []time.Duration{5 * second, -5 * second, -400 * ms, 400 * ms, time.Hour, -time.Hour} {
		bubbleOf(t, ahead.String(), func(t *testing.T, srv *holdfasttest.Server) {
			c, way := tapped(t, srv, holdfast.Config{})
			way.set(func() { way.ahead = ahead })
			l := c.Mutex("a", holdfast.TTL(ttl), holdfast.MaxHold(time.Hour))
			for round := range 2 {
				scripts := way.sent(script.Acquire().SHA1)
				lease := acquire(t, l)
				left, err := server(t, srv).PTTL(t.Context(), "holdfast:{a}").Result()
				if err != nil || left > ttl*105/100 || left < ttl*95/100 {
					t.Errorf("the lock lasts for %s, %v", left, err)
				}
				if d := time.Until(lease.Deadline()); d > left {
					t.Errorf("the lease lasts for %s, the lock for %s", d, left)
				}
				if n := way.sent(script.Acquire().SHA1) - scripts; round == 1 && n > 0 {
					t.Errorf("the second acquire took %d scripts", n)
				}
				release(t, lease)
			}
		})
	}
}

// A lease lasts no longer than the lock, however late the server answers.
func TestASetThatIsAnsweredLate(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c, way := tapped(t, srv, holdfast.Config{CommandTimeout: 10 * time.Second})
		release(t, acquire(t, c.Mutex("a")))
		way.set(func() { way.late = "PXAT" })
		begun := time.Now()
		lease := acquire(t, c.Mutex("a", holdfast.TTL(10*time.Second)))
		d := time.Until(lease.Deadline()) // before the lock is looked at, since a renewal is due
		left, err := server(t, srv).PTTL(t.Context(), "holdfast:{a}").Result()
		if err != nil || d > left || time.Since(begun) < 3*time.Second {
			t.Errorf("the lease lasts for %s, the lock for %s, %v, after %s", d, left, err, time.Since(begun))
		}
		release(t, lease)
	})
}

// More than a thousand fences were issued in this millisecond, which would reach into the next. Fences rise all the same.
func TestManyFencesInAMillisecond(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c, way := tapped(t, srv, holdfast.Config{})
		release(t, acquire(t, c.Mutex("a")))
		time.Sleep(time.Second)
		id := fmt.Sprintf("%d-1500", time.Now().UnixMilli())
		counter := &redis.XAddArgs{Stream: "holdfast:fences", ID: id, Values: []string{"g", ""}}
		expect.OK(t, server(t, srv).XAdd(t.Context(), counter).Err())
		last := uint64(0)
		for range 5 {
			lease := acquire(t, c.Mutex("a"))
			expect.Rises(t, last, lease.Fence())
			last = lease.Fence()
			release(t, lease)
			time.Sleep(time.Millisecond)
		}
		expect.AtLeast(t, "not each acquire was tried by the server's own commands", way.sent("MULTI"), 5)
	})
}

// Only plain mutexes are acquired without a script, and only if nothing must be checked or confirmed.
func TestOnlyPlainMutexesAreSet(t *testing.T) {
	for what, test := range map[string]struct {
		cfg   holdfast.Config
		lock  func(c *holdfast.Client) *holdfast.Lock
		plain bool
	}{
		"mutex":     {lock: func(c *holdfast.Client) *holdfast.Lock { return c.Mutex("a") }, plain: true},
		"one key":   {lock: func(c *holdfast.Client) *holdfast.Lock { return c.MutexKey("a") }},
		"reader":    {lock: func(c *holdfast.Client) *holdfast.Lock { return c.RWMutex("a").Reader() }},
		"semaphore": {lock: func(c *holdfast.Client) *holdfast.Lock { return c.Semaphore("a", 3).Permits(1) }},
		"owner":     {lock: func(c *holdfast.Client) *holdfast.Lock { return c.OwnerMutex("a", "job") }},
		"confirmed": {lock: func(c *holdfast.Client) *holdfast.Lock {
			return c.Mutex("a", holdfast.Durability{Replicas: 1, Timeout: time.Second})
		}},
		"Strict":             {cfg: holdfast.Config{Strict: true}, lock: func(c *holdfast.Client) *holdfast.Lock { return c.Mutex("a") }},
		"through the client": {cfg: holdfast.Config{ViaClient: true}, lock: func(c *holdfast.Client) *holdfast.Lock { return c.Mutex("a") }},
	} {
		bubbleOf(t, what, func(t *testing.T, srv *holdfasttest.Server) {
			c, way := tapped(t, srv, test.cfg)
			ctx := lasting(t, time.Minute)
			if lease, err := test.lock(c).Acquire(ctx); err == nil {
				release(t, lease)
			} else if test.plain {
				t.Error(err)
			}
			expect.Equal(t, "it was set", way.sent("MULTI") > 0, test.plain)
		})
	}
}

// A lock that was found held is asked for by script from then on, until such a request finds it free. That costs one further
// request, once.
func TestAContendedLockIsTriedNativelyOnce(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c, way := tapped(t, srv, holdfast.Config{})
		for range 2 { // the second time the client has forgotten the contention
			way.set(func() { way.requests = nil })
			held := acquire(t, client(t, srv).Mutex("a"))
			const tries = 20
			for range tries {
				expect.Err(t, "TryAcquire", expect.ErrOf(c.Mutex("a").TryAcquire(t.Context())), holdfast.ErrHeld)
			}
			release(t, held)
			release(t, acquire(t, c.Mutex("a")))
			expect.Equal(t, "transactions", way.sent("MULTI"), 1)
			expect.Equal(t, "acquires by script", way.sent(script.Acquire().SHA1), tries+1)
			release(t, acquire(t, c.Mutex("a")))
			expect.Equal(t, "transactions, with that for a free lock", way.sent("MULTI"), 2)
		}
	})
}

// A server that lacks a command is not asked for it again for a minute: locks are acquired by scripts.
func TestAServerThatLacksACommand(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c, way := tapped(t, srv, holdfast.Config{})
		way.set(func() { way.swaps = [2]string{"\r\nXADD\r\n", "\r\nNONE\r\n"} })
		begun := time.Now()
		for range 3 {
			release(t, acquire(t, c.Mutex("a")))
		}
		if n, took := way.sent("MULTI"), time.Since(begun); n != 1 || took > time.Second {
			t.Errorf("%d transactions, in %s: this server carries them out without the command", n, took)
		}
		way.set(func() { way.swaps = [2]string{} })
		time.Sleep(2 * time.Minute)
		for range 3 {
			release(t, acquire(t, c.Mutex("a")))
		}
		expect.Equal(t, "transactions, 3 of them after the server had the command", way.sent("MULTI"), 4)
	})
}

// Fault: An acquire by script is delayed, and its caller goes on with the same token, gets the lock and releases it. The copy, when it
// comes, finds a tombstone.
func TestALateAcquireOfAReleasedLock(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c, way := tapped(t, srv, holdfast.Config{CommandTimeout: time.Second, RetryTimeout: 5 * time.Second})
		theirs := acquire(t, client(t, srv).Mutex("a"))
		expect.Err(t, "TryAcquire", expect.ErrOf(c.Mutex("a").TryAcquire(t.Context())), holdfast.ErrHeld)
		release(t, theirs)
		way.set(func() { way.holds = script.Acquire().SHA1 })
		release(t, acquire(t, c.Mutex("a")))
		way.deliver(t)
		time.Sleep(time.Millisecond) // the embedded server sets it for as long
		expect.Equal(t, "the lock is set", exists(t, srv, "a"), false)
	})
}

// Fault: The reply to a release is lost. When its caller asks again, there is no lock. It does not say that the lease was lost before.
func TestAReleaseThatIsNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c, way := tapped(t, srv, holdfast.Config{CommandTimeout: time.Second})
		for range 2 { // the script is known at the second time
			lease := acquire(t, c.Mutex("a"))
			way.set(func() { way.silences = "hf2:" })
			expect.ErrBut(t, "Release", lease.Release(t.Context()), holdfast.ErrUnavailable, holdfast.ErrLost)
			expect.Equal(t, "the lock is set", exists(t, srv, "a"), false)
		}
	})
}
