package virtual

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// soon returns a context for operations that must end.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A waiter that is not told that a latch has opened looks after 30 s; it learns that a party has died when the
// party's lease is over.
//
// Fault: Messages to the waiters of a latch are lost. They look every 30 s, and are not left hanging.
func TestWaitersThatAreToldNothing(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c := client(t, srv)
		waiter := latch.New(client(t, srv, deaf), "l", 1)
		over := make(chan error, 1)
		wait := func() { go func() { over <- waiter.Wait(soon(t)) }() }
		wait()
		time.Sleep(10 * time.Second)
		expect.OK(t, latch.New(c, "l", 1).CountDown(t.Context()))
		began := time.Now()
		if err := <-over; err != nil || time.Since(began) > 20*time.Second+100*time.Millisecond {
			t.Errorf("Wait returns after %s: %v", time.Since(began), err)
		}
		expect.OK(t, latch.New(c, "l", 1).Reset(t.Context()))
		wait()
		time.Sleep(time.Second)
		began = time.Now()
		party, err := latch.New(client(t, srv, dying), "l", 1, holdfast.TTL(8*time.Second), holdfast.NoRenew()).Register(t.Context())
		expect.OK(t, err)
		// A second waiter's look shows it, and so does a look after the party joined.
		late := latch.New(client(t, srv, deaf), "l", 1)
		expect.Err(t, "Wait", late.Wait(soon(t)), latch.ErrIncomplete)
		expect.Between(t, "how long a party with a lease of 8s is waited for", time.Since(began), 8*time.Second, 8100*time.Millisecond)
		expect.Fails(t, "the party's lease", party.Lease().Err())
		if err := <-over; !errors.Is(err, latch.ErrIncomplete) || time.Since(began) > 30*time.Second+100*time.Millisecond {
			t.Errorf("Wait returns after %s: %v", time.Since(began), err)
		}
	})
}

// A barrier waits for a dead party until its lease is over, no longer. Then a waiting party takes its place.
func TestBarrierWaitsForADeadPartyForItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		join := func(wrap func(drivertest.Driver) drivertest.Driver, opts ...barrier.Option) *barrier.Party {
			return expect.Of(barrier.New(client(t, srv, wrap), "b", 2, opts...).Join(t.Context())).OK(t)
		}
		one := join(deaf)
		began := time.Now()
		join(dying, holdfast.TTL(9*time.Second), holdfast.NoRenew())
		next := make(chan *barrier.Party, 1)
		go func() { next <- join(deaf) }()
		time.Sleep(4 * time.Second)
		expect.Err(t, "Await", expect.ErrOf(one.Await(soon(t))), barrier.ErrBroken)
		expect.Between(t, "how long a party with a lease of 9s is waited for", time.Since(began), 9*time.Second, 9100*time.Millisecond)
		two := <-next
		if d := time.Since(began); d > 12*time.Second { // it is not told of its claim
			t.Errorf("its place is taken after %s", d)
		}
		done := async(func() error { return expect.ErrOf(two.Await(soon(t))) })
		expect.Of(one.Await(soon(t))).Is(t, "Await", 2)
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, p := range []*barrier.Party{one, two} {
			expect.Err(t, "Leave", p.Leave(t.Context()), nil)
		}
	})
}

// A latch is kept for a day after its last use.
func TestLatchIsKeptForADay(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		l := latch.New(client(t, srv), "l", 2)
		left := func(want int) {
			t.Helper()
			expect.Of(l.Count(t.Context())).Is(t, "those that are left", want)
		}
		expect.OK(t, l.CountDown(t.Context()))
		for range 3 {
			time.Sleep(24*time.Hour - time.Second)
			left(1)
		}
		time.Sleep(24*time.Hour + time.Second)
		left(2)
	})
}

// A lease that is downgraded and upgraded again keeps its owner, and the rest of its bounds.
func TestBoundsOutliveDowngradeAndUpgrade(t *testing.T) {
	const ttl = 6 * time.Second
	for name, on := range map[string]func(rw *holdfast.RWMutex, opts ...holdfast.RWMutexOption) *holdfast.Lock{
		"the writer": (*holdfast.RWMutex).Writer,
		"the reader": (*holdfast.RWMutex).Reader,
	} {
		for bound, opt := range map[string]holdfast.Option{
			"MaxRenewals": holdfast.MaxRenewals(2), // at 2 s and 4 s
			"MaxHold":     holdfast.MaxHold(10 * time.Second),
		} {
			bubbleOf(t, bound+" of "+name, func(t *testing.T, srv *holdfasttest.Server) {
				var sent atomic.Int64
				c := client(t, srv, counted("share_renew", &sent))
				rw := c.RWMutex("a", holdfast.TTL(ttl))
				began := time.Now()
				lease := expect.Of(on(rw, opt, holdfast.Identity("me")).Acquire(t.Context())).OK(t)
				weighs := []func(context.Context, *holdfast.Lease) (*holdfast.Lease, error){rw.TryUpgrade, rw.Downgrade}
				reads := name == "the reader"
				for lease.Err() == nil {
					weigh := weighs[1]
					if reads {
						weigh = weighs[0]
					}
					next := expect.Of(weigh(t.Context(), lease)).OK(t)
					expect.Equal(t, "the lease's owner", next.Identity(), "me")
					lease, reads = next, !reads
					select {
					case <-time.After(1500 * time.Millisecond):
					case <-lease.Done():
					}
					if time.Since(began) > time.Minute {
						t.Fatalf("the lease goes on after %s and %d renewals", time.Since(began), sent.Load())
					}
				}
				lostBy(t, lease.Err(), holdfast.LossBound)
				if bound == "MaxRenewals" && sent.Load() != 2 {
					t.Errorf("%d renewals; want 2", sent.Load())
				}
				if bound == "MaxHold" {
					expect.Between(t, "how long it was held", time.Since(began), 0, 10*time.Second)
				}
			})
		}
	}
}

// If the answer that a lease was downgraded, or upgraded, comes too late, the lease is lost.
func TestALeaseThatEndsWhileItIsWeighed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var late atomic.Bool
		late.Store(true)
		c := client(t, srv, belated("share_weigh", 1500*time.Millisecond, &late))
		rw := c.RWMutex("a", holdfast.TTL(time.Second))
		for what, weigh := range map[*holdfast.Lock]func(context.Context, *holdfast.Lease) (*holdfast.Lease, error){
			rw.Writer(): rw.Downgrade, rw.Reader(): rw.TryUpgrade,
		} {
			expect.Err(t, "a lease that ends while it is weighed", expect.ErrOf(weigh(t.Context(), acquire(t, what))), holdfast.ErrLost)
		}
	})
}

// A lease goes on if its change of mode was not sent: because the context had ended, or the driver could not send.
func TestAChangeOfModeThatWasNotSent(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var cut atomic.Bool
		c := client(t, srv, meddle(func(r request) (string, error) {
			if r.Script.Name == "share_weigh" && cut.Load() {
				return "", driver.ErrNotSent
			}
			return r.send()
		}))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		rw := c.RWMutex("a")
		writer := acquire(t, rw.Writer())
		if _, err := rw.Downgrade(ended, writer); err != context.Canceled || writer.Err() != nil {
			t.Errorf("Downgrade with an ended context: %v; then Err is %v", err, writer.Err())
		}
		release(t, writer)
		reader := acquire(t, rw.Reader())
		if _, err := rw.TryUpgrade(ended, reader); err != context.Canceled || reader.Err() != nil {
			t.Errorf("TryUpgrade with an ended context: %v; then Err is %v", err, reader.Err())
		}
		cut.Store(true)
		if _, err := rw.TryUpgrade(t.Context(), reader); !errors.Is(err, holdfast.ErrUnavailable) || reader.Err() != nil {
			t.Errorf("TryUpgrade that is not sent: %v; then Err is %v", err, reader.Err())
		}
		cut.Store(false)
		time.Sleep(time.Minute) // the lease is renewed meanwhile
		next := expect.Of(rw.TryUpgrade(t.Context(), reader)).OK(t)
		release(t, next)
	})
}

// A completed run is recorded even if that takes longer than RetryTimeout. The client tries for as long as the
// run has its lock; after that it only repeats a request that it began under the lock.
func TestACompletedJobIsWrittenDownWhileItsLeaseLasts(t *testing.T) {
	const retrying = 3 * time.Second // the default of Config.RetryTimeout
	for _, c := range []struct {
		name  string
		moves time.Duration
		opts  []once.Option
		done  bool
	}{
		{"until the slot has moved", time.Minute, nil, true},
		{"until the lease is over", time.Hour, []once.Option{holdfast.MaxHold(time.Minute)}, false},
	} {
		bubbleOf(t, c.name, func(t *testing.T, srv *holdfasttest.Server) {
			began := time.Now()
			locks := client(t, srv, meddle(func(r request) (string, error) {
				if r.Script.Name == "once_complete" && time.Since(began) < c.moves { // while lock and record are on different nodes
					return "", driver.ReplyError("TRYAGAIN Multiple keys request during rehashing of slot")
				}
				return r.send()
			}))
			job := once.New(locks, "job", once.Every(24*time.Hour), c.opts...)
			runs := 0
			run, err := job.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
				runs++
				return "fine", nil
			})
			took := time.Since(began)
			if c.done && (err != nil || !run.Here || took < c.moves || took > c.moves+time.Second) {
				t.Errorf("Do returned %+v, %v after %s", run, err, took)
			}
			if !c.done && (!errors.Is(err, holdfast.ErrUnavailable) || !errors.Is(err, holdfast.ErrLost) || took < 50*time.Second ||
				took > time.Minute+retrying) {
				t.Errorf("Do returned %+v, %v after %s; want ErrUnavailable and ErrLost when the lease is over", run, err, took)
			}
			expect.Of(backend.IsDone(t.Context(), job)).Is(t, "the job is done", c.done)
			expect.Equal(t, "runs", runs, 1)
		})
	}
}

// If Close keeps a job from beginning, the error says so, and names no context other than the caller's.
func TestAJobThatCannotBeginBecauseOfClose(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c := client(t, srv, meddle(func(r request) (string, error) {
			if r.Script.Name == "once_begin" {
				return r.hang()
			}
			return r.send()
		}))
		ended := make(chan error, 1)
		go func() {
			_, err := once.New(c, "job", once.Every(time.Hour)).Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
				t.Error("it runs")
				return "", nil
			})
			ended <- err
		}()
		time.Sleep(time.Millisecond)
		expect.Err(t, "Close", c.Close(t.Context()), nil)
		expect.ErrBut(t, "Do", <-ended, holdfast.ErrClosed, context.Canceled)
	})
}
