package virtual

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Fault: The server accepts the pipe's connection and never answers HELLO on it. Another connection is made.
func TestAConnectionThatIsNotGreetedIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		w := &tap{srv: srv}
		c := w.client(t, holdfast.Config{}, func(o *redis.Options) { o.ReadTimeout = time.Hour })
		if err := c.Ping(t.Context()); err != nil { // it is connected, but for the connection of its pipe
			t.Fatal(err)
		}
		w.set(func() { w.stopped = true })
		ctx := lasting(t, time.Second)
		began := time.Now()
		if _, err := c.Mutex("a").Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("an acquire whose connection is not greeted: %v after %s", err, time.Since(began))
		}
		if _, opened, closed := w.counts(); opened != 1 || closed != 0 {
			t.Fatalf("%d connections were opened and %d closed, want one that waits", opened, closed)
		}
		w.set(func() { w.stopped = false })
		ctx = lasting(t, 10*time.Second)
		lease := expect.Of(c.Mutex("a").Acquire(ctx)).OK(t)
		release(t, lease)
		time.Sleep(time.Minute)
		_, _, closed := w.counts()
		expect.Equal(t, "connections that were closed", closed, 1)
	})
}

// To make a connection takes several round trips, which together may take longer than a command may.
func TestAConnectionMayTakeLongerThanACommand(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		const distance = 30 * time.Millisecond // there and back
		cfg.CommandTimeout, cfg.RetryTimeout = 4*distance+distance/3, time.Second
		w := &tap{srv: srv, delay: distance, dials: func() error { time.Sleep(distance); return nil }}
		c := w.client(t, cfg)
		for range 2 {
			release(t, acquire(t, c.Mutex("a")))
		}
	})
}

// A caller gives up while its acquire is under way, and the server answers soon after. Then nothing more is released.
func TestASetThatIsAnsweredAfterItsCallerGaveUp(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		const distance = 30 * time.Millisecond // there and back
		w := &tap{srv: srv, delay: distance}
		c := w.client(t, holdfast.Config{})
		defer release(t, acquire(t, client(t, srv).Mutex("held")))
		for _, name := range []string{"free", "held"} {
			release(t, acquire(t, c.Mutex("first"))) // opens the connection
			w.set(func() { w.requests = nil })
			ctx := lasting(t, distance/2)
			expect.Err(t, name, expect.ErrOf(c.Mutex(name, holdfast.TTL(10*time.Minute)).TryAcquire(ctx)), context.DeadlineExceeded)
			time.Sleep(time.Second)
			expect.Equal(t, "the lock is set", exists(t, srv, "free"), false)
			before := w.sent(script.Release().SHA1)
			time.Sleep(20 * time.Minute)
			if n := w.sent(script.Release().SHA1); before == 0 || n != before {
				t.Errorf("%s: %d releases within a second, and then %d", name, before, n-before)
			}
		}
	})
}

// losses counts how often the server is lost.
func losses(n *atomic.Int64) []*holdfast.Observer {
	return []*holdfast.Observer{{ServerLost: func(holdfast.ServerEvent) { n.Add(1) }}}
}

// Everybody who asks a server gives up soon. It is lost if it does not answer within Config.CommandTimeout, and not if it answers later
// than they wait.
func TestAServerIsLostForThoseWhoGiveUpSoon(t *testing.T) {
	for takes, want := range map[time.Duration]int64{500 * time.Millisecond: 0, time.Hour: 1} {
		eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			var lost atomic.Int64
			cfg.CommandTimeout, cfg.Observers = time.Second, losses(&lost)
			w := &tap{srv: srv}
			l := w.client(t, cfg).Mutex("a")
			release(t, acquire(t, l))
			time.Sleep(time.Second) // until the client has checked its server
			w.set(func() { w.delay, w.deaf = takes, takes == time.Hour })
			ctx := lasting(t, 100*time.Millisecond)
			expect.Err(t, "Status", expect.ErrOf(l.Status(ctx)), context.DeadlineExceeded)
			time.Sleep(5 * time.Second)
			expect.Equal(t, "losses of a server that answers after "+takes.String(), lost.Load(), want)
		})
	}
}

// A caller that gives up while a connection is being made has met no outage, unless none can be made.
func TestACallerGivesUpBeforeThereIsAConnection(t *testing.T) {
	for what, c := range map[string]struct {
		cancels bool  // the caller; otherwise its time is up
		met     error // when a connection is made
		lost    int64
	}{
		"its time is up":   {},
		"it is cancelled":  {cancels: true},
		"none can be made": {met: errors.New("unreachable"), lost: 1},
	} {
		eachWayOf(t, what, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			var lost atomic.Int64
			cfg.Observers = losses(&lost)
			w := &tap{srv: srv}
			l := w.client(t, cfg, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 }).Mutex("a")
			release(t, acquire(t, l))
			time.Sleep(time.Hour) // after which the connection is not used again
			w.set(func() { w.dials = func() error { time.Sleep(500 * time.Millisecond); return c.met } })
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			if c.cancels {
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(200*time.Millisecond, cancel)
			}
			defer cancel()
			if _, err := l.TryAcquire(ctx); !errors.Is(err, ctx.Err()) || err == nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			expect.Equal(t, "losses of the server", lost.Load(), c.lost)
			w.set(func() { w.dials = nil })
			time.Sleep(10 * time.Second) // until go-redis has a connection again
		})
	}
}

// limiter is a circuit breaker of a program's.
type limiter struct {
	open  atomic.Bool
	asked atomic.Int64
}

func (l *limiter) Allow() error {
	l.asked.Add(1)
	if l.open.Load() {
		return errors.New("refused by the limiter")
	}
	return nil
}

func (l *limiter) ReportResult(error) {}

// Fault: The program's go-redis client has a limiter, which refuses all commands for a while. It is asked about each acquire, also
// of a lone caller. Leases are renewed and released all the same.
func TestALimiterCostsNoLease(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var limits limiter
		w := &tap{srv: srv}
		c := w.client(t, holdfast.Config{}, func(o *redis.Options) { o.Limiter = &limits })
		for i := range 5 {
			asked := limits.asked.Load()
			release(t, acquire(t, c.Mutex("a")))
			if limits.asked.Load() == asked {
				t.Errorf("acquire %d went past the limiter", i)
			}
			time.Sleep(10 * time.Millisecond) // a connection for lone callers would be made meanwhile
		}
		lease := acquire(t, c.Mutex("a", holdfast.TTL(10*time.Second)))
		limits.open.Store(true)
		time.Sleep(time.Minute)
		expect.Err(t, "the lease is over", lease.Err(), nil)
		release(t, lease)
	})
}

// Fault: All connections of a pool die silently, as when an address moves or a firewall forgets them. No lease is
// lost, however many connections releases had opened.
func TestLeasesOutliveConnectionsThatAreAllDead(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		const ttl, goroutines, trip = 15 * time.Second, 60, 2500 * time.Microsecond
		w := &tap{srv: srv, delay: trip}
		c := w.client(t, holdfast.Config{ViaClient: true}, func(o *redis.Options) { o.PoolSize = 100 })
		var held []*holdfast.Lease
		for i := range 20 {
			held = append(held, acquire(t, c.Mutex(fmt.Sprint("held ", i), holdfast.TTL(ttl))))
		}
		var all sync.WaitGroup
		for i := range goroutines {
			time.Sleep(trip / goroutines)
			all.Go(func() {
				for range 20 {
					release(t, acquire(t, c.Mutex(fmt.Sprint("cycle ", i))))
				}
			})
		}
		all.Wait()
		if n, _, _ := w.counts(); n < goroutines {
			t.Fatalf("there are only %d connections", n)
		}
		w.forget()
		time.Sleep(3 * ttl)
		alive(t, held)
	})
}

// However many goroutines use locks on a distant server, none of them waits for the round trips of others.
func TestACycleTakesTwoRoundTripsHoweverManyAreUnderWay(t *testing.T) {
	const trip, goroutines, cycles = 2500 * time.Microsecond, 60, 5
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c := client(t, srv, meddle(func(r request) (string, error) { return r.late(trip) }))
		release(t, acquire(t, c.Mutex("warm")))
		ctx, cancel := context.WithCancel(t.Context()) // as programs' contexts may be
		defer cancel()
		var all sync.WaitGroup
		for n := range goroutines {
			time.Sleep(trip / goroutines)
			all.Go(func() {
				l := c.Mutex(fmt.Sprint("lock ", n))
				for range cycles {
					began := time.Now()
					lease, err := l.Acquire(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					expect.Err(t, "Release", lease.Release(ctx), nil)
					expect.Equal(t, "a cycle's time", time.Since(began), 2*trip)
				}
			})
		}
		all.Wait()
	})
}
