package virtual

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// quiet is a logger for go-redis, which would log each connection that fails here.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(quiet{}) }

// state is that of the way to a server.
type state int

const (
	well    state = iota
	refused       // nobody listens any more
	hung          // connections are accepted, and nothing is answered
	stuck         // scripts are not answered; subscriptions stay
)

// way is the network path to a server, which can break.
type way struct {
	tap
	stuck atomic.Bool
}

func newWay(srv *holdfasttest.Server) *way { return &way{tap: tap{srv: srv}} }

func (w *way) become(s state) {
	w.stuck.Store(s == stuck)
	w.set(func() { w.deaf, w.refuses = s == hung, false })
	if s == refused {
		w.refuse()
	}
}

func (w *way) client(t *testing.T, cfg holdfast.Config) *holdfast.Client {
	t.Helper()
	c := opened(t, w.dial, cfg, func(o *redis.Options) { o.DialerRetries = 1 }, meddle(func(r request) (string, error) {
		if w.stuck.Load() {
			return r.hang()
		}
		return r.send()
	}))
	t.Cleanup(func() { w.become(well) })
	return c
}

// Fault: The server is out of order while a service waits for a lock for a second. The error says so, and so tells a
// 503 from a 409.
func TestAnOutageDoesNotLookLikeABusyLock(t *testing.T) {
	within := func(t *testing.T, l *holdfast.Lock) error {
		t.Helper()
		ctx := lasting(t, time.Second)
		lease, err := l.Acquire(ctx)
		if lease != nil {
			t.Error("Acquire returned a lease")
		}
		expect.Equal(t, "the error is the context's", errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil)
		return err
	}
	for broken, said := range map[state]string{refused: "connection refused", hung: "no answer"} {
		for what, of := range map[string]struct {
			known  bool   // the lock was acquired before
			behind string // which lock another caller is waiting for
			held   bool   // and another waits in its queue
			polls  bool
		}{
			"first contact":                  {},
			"behind another's first contact": {behind: "b"},
			"a server that is known":         {known: true},
			"polling":                        {known: true, polls: true},
			"behind another of this process": {known: true, behind: "a"},
			"queued":                         {held: true},
		} {
			eachWayOf(t, fmt.Sprintf("%s, %s", what, said), func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
				w := newWay(srv)
				c := w.client(t, cfg)
				l := c.Mutex("a")
				if of.polls {
					l = c.Mutex("a", holdfast.Poll(10*time.Millisecond))
				}
				if of.known {
					release(t, acquire(t, l))
				}
				if of.held {
					lease := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(time.Hour)))
					first := wait(t, l) // it goes on
					t.Cleanup(func() { first.giveUp(); release(t, lease) })
				}
				if of.held && broken == hung {
					// go-redis waits for a subscription's connection while it holds a mutex, for which a
					// bubble's time stands still.
					w.become(stuck)
				} else {
					w.become(broken)
				}
				switch {
				case of.held:
					time.Sleep(time.Minute) // by then it has noticed
				case of.behind != "":
					go func() { _, _ = c.Mutex(of.behind).Acquire(t.Context()) }()
					time.Sleep(100 * time.Millisecond)
				}
				err := within(t, l)
				if !errors.Is(err, holdfast.ErrUnavailable) {
					t.Fatalf("want an error that matches ErrUnavailable, got %v", err)
				}
				parts := []string{`"a`, "127.0.0.1:0", said}
				if of.behind != "" { // it reports the outage that the other met as its own
					parts = parts[:2]
				}
				for _, part := range parts {
					expect.Contains(t, "the error", err.Error(), part)
				}
			})
		}
	}
	eachWayOf(t, "a lock that others have, after an outage", func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		lease := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(time.Hour)))
		defer release(t, lease)
		w := newWay(srv)
		l := w.client(t, cfg).Mutex("a")
		first := wait(t, l)
		w.become(refused)
		time.Sleep(time.Minute)
		w.become(well)
		time.Sleep(time.Minute)
		expect.ErrBoth(t, "Acquire", within(t, l), context.DeadlineExceeded, holdfast.ErrHeld)
		expect.Equal(t, "the waiter that outlived the outage", first.giveUp(), context.Canceled)
	})
}

// Fault: A single command is not answered. The error is not one of the caller's context, which has not ended.
func TestAnUnansweredCommandDoesNotLookLikeTheCallersDeadline(t *testing.T) {
	for what, broken := range map[string]state{"refused": refused, "hung": hung} {
		eachWayOf(t, what, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			w := newWay(srv)
			known := w.client(t, cfg)
			lease := acquire(t, known.Mutex("held"))
			fresh := w.client(t, cfg)
			w.become(broken)
			ctx := lasting(t, time.Hour)
			check := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
					t.Errorf("%s: want ErrUnavailable and no error of a context, got %v", what, err)
				}
			}
			for of, c := range map[string]*holdfast.Client{"known": known, "fresh": fresh} {
				_, err := c.Mutex("a").Acquire(ctx)
				check("Acquire, "+of, err)
				_, err = c.Mutex("a").TryAcquire(ctx)
				check("TryAcquire, "+of, err)
				_, err = backend.HolderOf(ctx, c.Mutex("a"))
				check("Holder, "+of, err)
			}
			check("Extend", lease.Extend(ctx, time.Minute))
			select {
			case <-lease.Done():
			case <-ctx.Done():
			}
			check("a lost lease", lease.Err())
		})
	}
}

// absent is the driver of a server whose port is closed, or that swallows packets.
type absent struct {
	drivertest.Driver
	swallows bool
	probes   atomic.Int64
}

func (d *absent) wrap(inner drivertest.Driver) drivertest.Driver {
	d.Driver = inner
	return d
}

func (d *absent) Probe(ctx context.Context) (driver.ServerInfo, error) {
	d.probes.Add(1)
	if d.swallows {
		<-ctx.Done()
		return driver.ServerInfo{}, ctx.Err()
	}
	return driver.ServerInfo{}, fmt.Errorf("%w: connection refused", driver.ErrNotSent)
}

// Fault: A server that many callers need for the first time cannot be reached. They share one attempt, and no error
// names another caller's lock.
func TestFirstContactIsShared(t *testing.T) {
	for what, swallows := range map[string]bool{"refused": false, "swallowed": true} {
		bubbleOf(t, what, func(t *testing.T, srv *holdfasttest.Server) {
			d := &absent{swallows: swallows}
			c := client(t, srv, d.wrap)
			const callers = 20
			var all sync.WaitGroup
			began := time.Now()
			for i := range callers {
				all.Go(func() {
					name := fmt.Sprint("lock", i)
					_, err := c.Mutex(name).TryAcquire(t.Context())
					var se *holdfast.ServerError
					if !errors.As(err, &se) || se.Name != name || !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("TryAcquire of %s: %v", name, err)
					}
				})
			}
			all.Wait()
			// RetryTimeout, and a command's timeout that begins at its end.
			expect.Between(t, "after how long all are told", time.Since(began), 0, 5100*time.Millisecond)
			expect.Between(t, "probes", d.probes.Load(), 0, callers)
			// A caller that is interrupted is told of an outage that was met.
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			err := expect.ErrOf(c.Mutex("a").Acquire(ctx))
			expect.Equal(t, fmt.Sprintf("%v is of a cancelled context, and of an outage", err), errors.Is(err, context.Canceled) && errors.Is(err, holdfast.ErrUnavailable), !swallows)
		})
	}
}

// Fault: The client is closed while a server is first contacted. Close does not wait for it.
func TestCloseEndsTheFirstContact(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		d := &absent{swallows: true}
		c := client(t, srv, d.wrap)
		over := async(func() error { return expect.ErrOf(c.Mutex("m").Acquire(t.Context())) })
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		go func() { _ = c.Close(t.Context()) }()
		if err := <-over; !errors.Is(err, holdfast.ErrClosed) || time.Since(began) > 0 {
			t.Errorf("Acquire, %s after Close: %v", time.Since(began), err)
		}
		if err := c.Close(t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("Close takes %s: %v", time.Since(began), err)
		}
	})
}

// Fault: Nothing listens at the server's address, from the beginning or later, and go-redis retries dials for longer than a caller
// may wait. A caller that does not wait for its lock is told at once that the connection was refused; any other is told after
// RetryTimeout.
func TestCallersThatDoNotWaitForAServerThatRefuses(t *testing.T) {
	for _, known := range []bool{false, true} {
		bubbleOf(t, fmt.Sprint("known ", known), func(t *testing.T, srv *holdfasttest.Server) {
			w := &tap{srv: srv}
			c := w.client(t, holdfast.Config{RetryTimeout: 3 * time.Second})
			defer time.Sleep(2 * time.Second) // by then go-redis has noticed that its clients are closed
			if known {
				release(t, acquire(t, c.Mutex("m")))
			}
			w.refuse()
			told := func(within time.Duration, acquire func(context.Context) (*holdfast.Lease, error)) {
				t.Helper()
				began := time.Now()
				_, err := acquire(t.Context())
				if took := time.Since(began); !errors.Is(err, holdfast.ErrUnavailable) ||
					!strings.Contains(err.Error(), "connection refused") || took > within {
					t.Errorf("after %s: %v", took, err)
				}
			}
			for range 3 {
				told(10*time.Millisecond, c.Mutex("m").TryAcquire)
				told(10*time.Millisecond, c.Mutex("m", holdfast.Wait(0)).Acquire)
				told(10*time.Millisecond, c.RWMutex("rw").Reader().TryAcquire)
				told(10*time.Millisecond, c.Multi([]string{"a", "b"}).TryAcquire)
			}
			began := time.Now()
			told(4*time.Second, c.Mutex("m").Acquire)
			expect.Between(t, "how long a caller that waits tries", time.Since(began), time.Second, 4*time.Second)
		})
	}
}

// Fault: The server falls silent, and many leases are lost. Close waits until they have expired on the server, too,
// and no longer.
func TestCloseAfterManyLeasesWereLostInSilence(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var d moody
		c := client(t, srv, d.wrap)
		const ttl = 3 * time.Second
		var leases []*holdfast.Lease
		for i := range 500 {
			leases = append(leases, acquire(t, c.Mutex(fmt.Sprint(i), holdfast.TTL(ttl))))
		}
		d.hangs.Store(true)
		for _, lease := range leases {
			<-lease.Done()
		}
		began := time.Now()
		expect.Err(t, "Close", c.Close(context.Background()), nil)
		// Requests that are under way then last for another CommandTimeout.
		expect.Between(t, "how long Close takes", time.Since(began), 0, ttl+2100*time.Millisecond)
	})
}

// Fault: The server refuses everything for a while. Leases are renewed afterwards, and meanwhile renewals go in batches, not one by one.
//
// Bug: A watchdog stops at the first error.
func TestRenewalsToAServerThatRefuses(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var d moody
		c := client(t, srv, d.wrap)
		var leases []*holdfast.Lease
		for i := range 300 {
			leases = append(leases, acquire(t, c.Mutex(fmt.Sprint(i))))
		}
		time.Sleep(4 * time.Second)
		d.singles.Store(0)
		d.refuse(driver.ReplyError("BUSY Redis is busy running a script."))
		time.Sleep(8 * time.Second)
		d.refuse(nil)
		// A single one that is left over is sent by itself.
		expect.Between(t, "renewals by themselves", d.singles.Load(), 0, 10)
		time.Sleep(20 * time.Second)
		alive(t, leases)
	})
}

// Release works with a context that has ended: cleanup code may have no other. A lease outlasts the context of its acquire.
//
// Bug: A release fails on a cancelled context.
func TestReleaseWorksOnAnEndedContext(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		for _, deadline := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			if time.AfterFunc(time.Millisecond, cancel); deadline {
				ctx = lasting(t, time.Millisecond)
			}
			lease := expect.Of(configured(t, srv, cfg).Mutex("a").Acquire(ctx)).OK(t)
			<-ctx.Done()
			expect.Err(t, "the lease", errors.Join(lease.Err(), lease.Context(context.Background()).Err()), nil)
			if err := lease.Release(ctx); err != nil || exists(t, srv, "a") {
				t.Errorf("Release: %v", err)
			}
		}
	})
}

// For every kind of lock, ctx's deadline bounds how long Release waits. The lease is over from the moment of the call, and the lock
// is released in the background.
func TestReleaseWithADeadline(t *testing.T) {
	kinds := backend.Pairs()
	kinds["a mutex"] = backend.Alike(func(c *holdfast.Client) *holdfast.Lock { return c.Mutex("a") })
	for kind, lock := range kinds {
		bubbleOf(t, kind, func(t *testing.T, srv *holdfasttest.Server) {
			var d moody
			lease := acquire(t, lock.Held(client(t, srv, d.wrap)))
			d.hangs.Store(true)
			ctx := lasting(t, 100*time.Millisecond)
			began, released := time.Now(), make(chan error)
			go func() { released <- lease.Release(ctx) }()
			synctest.Wait()
			expect.Err(t, "Err during Release", lease.Err(), holdfast.ErrReleased)
			err := <-released
			if !errors.Is(err, holdfast.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 100*time.Millisecond {
				t.Errorf("Release after %s: %v", time.Since(began), err)
			}
			sure := &holdfast.ServerError{Op: "acquire", Name: "b"}
			for _, err := range []error{err, errors.Join(sure, err), errors.Join(err, sure), fmt.Errorf("twice: %w, %w", sure, err)} {
				expect.Err(t, "not ambiguous", err, holdfast.ErrAmbiguous)
			}
			expect.Equal(t, "what is not ambiguous is so twice", errors.Is(errors.Join(sure, sure), holdfast.ErrAmbiguous), false)
			time.Sleep(time.Second)
			d.hangs.Store(false)
			release(t, acquire(t, lock.Wanted(client(t, srv))))
		})
	}
}

// Fault: A waiter renews its claim at once, and the renewal is never answered. Release ends the lease at once, and waits no longer
// than 50 ms for that reply, or as long as its context lasts, and not for the end of the claim.
func TestReleaseDoesNotWaitForARenewalThatHangs(t *testing.T) {
	for _, patience := range []time.Duration{time.Hour, time.Millisecond} {
		bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
			hangs := newTrap()
			held := acquire(t, client(t, srv).Mutex("a"))
			c := configured(t, srv, holdfast.Config{CommandTimeout: time.Minute}, meddle(func(r request) (string, error) {
				if r.does("renew") {
					hangs.hold()
				}
				return r.send()
			}))
			first, second := wait(t, c.Mutex("a")), wait(t, c.Mutex("a"))
			release(t, held)
			<-hangs.held
			<-first.done
			begun := time.Now()
			ctx := lasting(t, patience)
			err := first.lease.Release(ctx)
			expect.Err(t, "Err after Release", first.lease.Err(), holdfast.ErrReleased)
			if soon := patience < time.Second; errors.Is(err, context.DeadlineExceeded) != soon || (err == nil) == soon {
				t.Errorf("Release within %s: %v", patience, err)
			}
			second.served(t, 50*time.Millisecond)
			expect.Between(t, "both releases", time.Since(begun), 0, 50*time.Millisecond)
			expect.Rises(t, first.lease.Fence(), second.lease.Fence())
			close(hangs.letGo)
		})
	}
}

// A Release that is called while another is under way returns the other's outcome.
func TestReleasesAtOnceInAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var d moody
		lease := acquire(t, client(t, srv, d.wrap).Mutex("a", holdfast.TTL(time.Hour)))
		d.hangs.Store(true)
		began := time.Now()
		const calls = 6
		errs := make(chan error, calls)
		for range calls {
			go func() { errs <- lease.Release(t.Context()) }()
		}
		for range calls {
			expect.Err(t, "Release", <-errs, holdfast.ErrUnavailable)
		}
		// RetryTimeout, and a command's timeout that begins at its end.
		expect.Between(t, "all calls", time.Since(began), 0, 5100*time.Millisecond)
		d.hangs.Store(false)
		release(t, acquire(t, client(t, srv).Mutex("a")))
	})
}

// Fault: The server hangs, and many acquires are cancelled. They are taken back a few at a time, and their locks are
// gone soon after the server answers again.
func TestManyAreCancelledInSilence(t *testing.T) {
	for what, opts := range map[string][]holdfast.MutexOption{"together": nil, "by themselves": {holdfast.MaxHold(time.Hour)}} {
		bubbleOf(t, what, func(t *testing.T, srv *holdfasttest.Server) {
			var d moody
			c := client(t, srv, d.wrap)
			other := client(t, srv)
			const names, each = 50, 40
			locks := make([]*holdfast.Lock, names)
			for i := range locks {
				locks[i] = c.Mutex(fmt.Sprint(i), opts...)
			}
			release(t, acquire(t, locks[0])) // the server has been reached
			held := acquire(t, other.Mutex("1"))
			waiting := wait(t, locks[1])
			d.hangs.Store(true)
			waiting.cancel()
			before := backend.Goroutines()
			for range each {
				for _, l := range locks {
					ctx, cancel := context.WithCancel(t.Context())
					go func() {
						if lease, err := l.Acquire(ctx); err == nil { // one of the last, once the server answers
							release(t, lease)
						}
					}()
					time.AfterFunc(50*time.Millisecond, cancel)
					time.Sleep(10 * time.Millisecond)
				}
			}
			// Calls without an answer last for a CommandTimeout.
			expect.Between(t, "goroutines", backend.Goroutines(), 0, before+1000)
			d.hangs.Store(false)
			time.Sleep(10 * time.Second)
			expect.Between(t, "goroutines that are left", backend.Goroutines(), 0, before+100)
			release(t, held)
			for i := range locks {
				release(t, acquire(t, other.Mutex(fmt.Sprint(i))))
			}
			d.hangs.Store(true)
			for _, l := range locks {
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					_, _ = l.Acquire(ctx)
				}()
				time.Sleep(time.Millisecond)
				cancel()
			}
			began := time.Now()
			expect.Err(t, "Close", c.Close(context.Background()), nil)
			expect.Between(t, "how long Close takes", time.Since(began), 0, 5*time.Second)
		})
	}
}

func TestLostLeasesAreTakenBackFewAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var flying, most, all atomic.Int64
		c := client(t, srv, meddle(func(r request) (string, error) {
			switch {
			case r.does("renew"):
				return r.hang()
			case r.Script.Name == "release":
				all.Add(1)
				now := flying.Add(1)
				defer flying.Add(-1)
				for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
				}
				time.Sleep(100 * time.Millisecond)
			}
			return r.send()
		}))
		const n = 200
		var leases []*holdfast.Lease
		for i := range n {
			leases = append(leases, acquire(t, c.Mutex(fmt.Sprint(i), holdfast.TTL(10*time.Second))))
		}
		time.Sleep(20 * time.Second)
		for _, lease := range leases {
			expect.Fails(t, lease.Name(), lease.Err())
		}
		if most.Load() > 16 || all.Load() != n {
			t.Errorf("%d releases, %d at once; want %d, and at most 16", all.Load(), most.Load(), n)
		}
	})
}
