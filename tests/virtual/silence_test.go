package virtual

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

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

// A context whose deadline has passed sets no limit for a release: cleanup code has no other.
func TestReleaseAfterTheDeadline(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		lease := acquire(t, configured(t, srv, cfg).Mutex("a"))
		ctx := lasting(t, time.Millisecond)
		<-ctx.Done()
		if err := lease.Release(ctx); err != nil || exists(t, srv, "a") {
			t.Errorf("Release: %v", err)
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
