package virtual

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// A holder that is asked to let go before it has heard that it holds the lock learns of that, too.
func TestANoticeBeforeTheGrantIsNotLost(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		cfg := holdfast.Config{ViaClient: true, TTL: time.Hour}
		c := configured(t, srv, cfg, meddle(func(r request) (string, error) {
			if strings.Contains(r.Keys[0], "{late}") {
				return r.late(time.Second)
			}
			return r.send()
		}))
		first := acquire(t, c.Mutex("first"))
		time.Sleep(2 * time.Second) // since then the client listens
		got := make(chan *holdfast.Lease, 1)
		go func() { got <- acquire(t, c.Mutex("late")) }()
		time.Sleep(500 * time.Millisecond)
		in := inspect.New(client(t, srv))
		s, err := in.Get(t.Context(), "late")
		if err != nil || len(s.Holders) != 1 || len(got) > 0 {
			t.Fatalf("Get: %+v, %v", s, err)
		}
		expect.OK(t, in.Revoke(t.Context(), s.Holders[0], ""))
		release(t, acquire(t, c.Mutex("between"))) // which the notice does not concern
		lease := <-got
		time.Sleep(time.Minute)
		select {
		case <-lease.Revoked():
		default:
			t.Error("it was not told")
		}
		release(t, lease)
		release(t, first)
	})
}

// A holder that has heard of a break, and could not read of it, is told at its next renewal that its lock was broken, by whom
// and why.
func TestANoticeExplainsWhatARenewalFinds(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c := client(t, srv, meddle(func(r request) (string, error) {
			if r.Script.Name == script.Notes().Name {
				return "", driver.ErrNotSent
			}
			return r.send()
		}))
		lease := acquire(t, c.Mutex("m"))
		time.Sleep(2500 * time.Millisecond) // the client listens after one second, and renews after five
		in := inspect.New(client(t, srv))
		broken := expect.Of(in.Break(t.Context(), backend.Seen(t, in, "m", lease.Fence()), "it hung")).OK(t)
		time.Sleep(time.Second)
		expect.OK(t, lease.Err())
		<-lease.Done()
		var lost *holdfast.LostError
		if !errors.As(lease.Err(), &lost) || lost.Reason != holdfast.LossBroken || lost.By != broken.By || lost.Note != "it hung" {
			t.Errorf("it was told %+v", lost)
		}
	})
}

// Leases that have one grant, one after another or at the same time, have one grant id, whatever their fences. A revocation by that id
// reaches the lease that has the lock now, or all that share it.
func TestLeasesOfOneGrantAreToldTogether(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c, in := client(t, srv), inspect.New(client(t, srv))
		mutex := c.Mutex("m", holdfast.TTL(time.Hour))
		free := acquire(t, client(t, srv).Mutex("m"))
		first, second := wait(t, mutex), wait(t, mutex)
		release(t, free)
		first.granted(t)
		time.Sleep(20 * time.Millisecond) // until it has reserved a fence for the second
		release(t, first.lease)
		second.granted(t)
		seen := backend.Seen(t, in, "m", first.lease.Fence()) // the server was not asked when the lock was passed on
		reader := c.RWMutex("rw", holdfast.TTL(time.Hour)).Reader()
		readers := []*holdfast.Lease{acquire(t, reader), acquire(t, reader)}
		shared, err := in.Get(t.Context(), "rw")
		if err != nil || len(shared.Holders) != 1 {
			t.Fatalf("the readers have %+v, %v", shared, err)
		}
		time.Sleep(2 * time.Second) // since then the client listens
		for _, of := range []struct {
			h      holdfast.Holder
			leases []*holdfast.Lease
		}{{seen, []*holdfast.Lease{second.lease}}, {shared.Holders[0], readers}} {
			expect.OK(t, in.Revoke(t.Context(), of.h, ""))
			for _, l := range of.leases {
				<-l.Revoked()
			}
			expect.OK(t, expect.ErrOf(in.Break(t.Context(), of.h, "")))
			for _, l := range of.leases {
				<-l.Done()
				lostBy(t, l.Err(), holdfast.LossBroken)
			}
		}
	})
}

// watching is what a watch has yielded.
type watching struct {
	t      *testing.T
	events chan inspect.Event
	errs   chan error
	over   chan struct{}
	stop   func()
}

func watch(t *testing.T, in *inspect.Inspector, pattern string) *watching {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{t, make(chan inspect.Event, 1000), make(chan error, 1000), make(chan struct{}), cancel}
	go func() {
		defer close(w.over)
		for e, err := range in.Watch(ctx, pattern) {
			if err != nil {
				w.errs <- err
			} else {
				w.events <- e
			}
		}
	}()
	return w
}

// wants requires that these are the events of the next look, in any order of the locks: "TYPE NAME".
func (w *watching) wants(when string, want ...string) {
	w.t.Helper()
	time.Sleep(1100 * time.Millisecond)
	synctest.Wait()
	var got []string
	for len(w.events) > 0 {
		e := <-w.events
		if e.Time.IsZero() || !e.Time.Equal(e.Status.Time) || e.Time.After(time.Now()) {
			w.t.Errorf("%s: the time of %s is %s, now is %s", when, e.Type, e.Time, time.Now())
		}
		got = append(got, string(e.Type)+" "+e.Status.Name)
	}
	slices.SortStableFunc(got, func(a, b string) int {
		return strings.Compare(a[strings.Index(a, " "):], b[strings.Index(b, " "):])
	})
	expect.Same(w.t, when+": the events", got, want)
	for len(w.errs) > 0 {
		w.t.Errorf("%s: %v", when, <-w.errs)
	}
}

func (w *watching) ends() {
	w.stop()
	<-w.over
}

// A watch sees what is there at first, and then who comes and goes, and how.
func TestWatchSeesChanges(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c, other := client(t, srv), client(t, srv)
		first := acquire(t, c.Mutex("a"))
		reader := acquire(t, c.RWMutex("b").Reader())
		w := watch(t, inspect.New(client(t, srv)), "?")
		one := watch(t, inspect.New(client(t, srv)), "a")
		exact := watch(t, inspect.New(client(t, srv)), "k")
		w.wants("at first", "present a", "present b")
		one.wants("of one lock, at first", "present a")
		w.wants("while nothing happens")

		queued := make(chan *holdfast.Lease)
		go func() { queued <- acquire(t, other.Mutex("a")) }()
		brief := acquire(t, other.Mutex("c", holdfast.TTL(3500*time.Millisecond), holdfast.NoRenew()))
		acquire(t, c.Mutex("too long to match", holdfast.NoRenew(), holdfast.TTL(time.Second)))
		key := acquire(t, c.MutexKey("k"))
		w.wants("one waits, and one is granted", "queued a", "granted c")
		release(t, first)
		second := <-queued
		w.wants("handed over", "released a", "granted a")
		w.wants("while it lasts")
		<-brief.Done()
		w.wants("the lease that is not renewed is over", "expired c")
		release(t, second)
		other2 := acquire(t, other.RWMutex("b").Reader())
		w.wants("free, and another reader", "released a", "granted b")
		release(t, reader)
		release(t, other2)
		w.wants("both readers have left", "released b")
		one.wants("of one lock, since then", "queued a", "released a", "granted a", "released a")
		exact.wants("of an exact key", "granted k")
		release(t, key)
		exact.wants("of an exact key that was given up", "released k")
		for _, each := range []*watching{w, one, exact} {
			each.ends()
		}
	})
}

// An outage does not end a watch, which then reports what has changed meanwhile; what asking again does not mend does.
func TestWatchOutlivesOutages(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var d moody
		c := client(t, srv)
		in := inspect.New(client(t, srv, d.wrap))
		lease := acquire(t, c.Mutex("a"))
		w := watch(t, in, "")
		w.wants("at first", "present a")
		d.refuse(driver.ReplyError("LOADING wait"))
		release(t, lease)
		lease = acquire(t, c.Mutex("b"))
		time.Sleep(10 * time.Second) // less than the lease has left: it did not expire
		synctest.Wait()
		if n := len(w.errs); n < 2 || n > 4 || len(w.events) > 0 {
			t.Errorf("in an outage of 10 s there are %d errors and %d events", n, len(w.events))
		}
		for len(w.errs) > 0 {
			expect.Err(t, "the watch", <-w.errs, holdfast.ErrUnavailable)
		}
		d.refuse(nil)
		time.Sleep(4 * time.Second)
		for len(w.errs) > 0 { // of the look that was under way
			<-w.errs
		}
		w.wants("after the outage", "released a", "granted b")
		d.refuse(driver.ReplyError("NOPERM no"))
		<-w.over
		expect.Err(t, "the last error is", <-w.errs, holdfast.ErrDenied)
		release(t, lease)
		for _, err := range in.Watch(t.Context(), "[a") {
			expect.Err(t, "of a bad pattern", err, holdfast.ErrInvalid)
		}
	})
}

// While the master that has an exact key does not answer, nobody is told that the lock of that name is free: neither by Get, nor
// by a list, nor by a watch.
func TestAnExactKeyOutOfReachIsNotFree(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var away atomic.Bool
		in := inspect.New(client(t, srv, meddle(func(r request) (string, error) {
			if away.Load() && len(r.Keys) > 0 && r.Keys[0] == "k" {
				return "", driver.ReplyError("CLUSTERDOWN the slot has no master")
			}
			return r.send()
		})))
		lease := acquire(t, client(t, srv).MutexKey("k", holdfast.TTL(time.Hour)))
		w := watch(t, in, "k")
		w.wants("at first", "present k")
		away.Store(true)
		expect.Err(t, "Get", expect.ErrOf(in.Get(t.Context(), "k")), holdfast.ErrUnavailable)
		var last error
		for s, err := range in.List(t.Context(), "k") {
			if last = err; err == nil {
				t.Errorf("listed: %+v", s)
			}
		}
		expect.Err(t, "List", last, holdfast.ErrUnavailable)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		expect.AtLeast(t, "errors of the watch", len(w.errs), 1)
		for len(w.errs) > 0 {
			expect.Err(t, "the watch", <-w.errs, holdfast.ErrUnavailable)
		}
		away.Store(false)
		time.Sleep(4 * time.Second)
		for len(w.errs) > 0 { // of the look that was under way
			<-w.errs
		}
		w.wants("after that")
		release(t, lease)
		w.wants("released", "released k")
		w.ends()
	})
}
