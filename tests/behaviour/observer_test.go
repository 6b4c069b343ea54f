package behaviour

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/recorder"
	"github.com/holdfast-go/holdfast/transfer"
)

// observed returns a client with a recorder of what its observers are told. When the test ends, the client has been closed,
// and the record is checked.
func observed(t testing.TB, b *backend.Backend, cfg holdfast.Config) (*holdfast.Client, *recorder.Recorder) {
	t.Helper()
	r := &recorder.Recorder{}
	t.Cleanup(func() { r.Check(t) })
	cfg.Observers = append(cfg.Observers, nil, r.Observer())
	return b.Client(t, &cfg), r
}

// eventually waits until the events of the latest acquire of a lease are these; renewals do not count.
func eventually(t testing.TB, r *recorder.Recorder, want ...string) *recorder.Acquire {
	t.Helper()
	var last *recorder.Acquire
	backend.Eventually(t, "the events "+strings.Join(want, ", "), func() bool {
		last = r.Latest(t)
		got := slices.DeleteFunc(slices.Clone(last.Events), func(e string) bool { return e == "Renewed" })
		return slices.Equal(got, want)
	})
	return last
}

func TestObserversOfEveryKindOfLock(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		ctx := context.Background()
		c, r := observed(t, b, holdfast.Config{Identity: "me"})
		rw, sem := c.RWMutex("rw"), c.Semaphore("semaphore", 5)
		lock := func(l *holdfast.Lock) func() error {
			return func() error {
				return l.Do(ctx, func(context.Context, *holdfast.Lease) error { return nil })
			}
		}
		for _, k := range []struct {
			name    string
			kind    holdfast.Kind
			mode    holdfast.Mode
			permits int
			try     bool
			use     func() error
		}{
			{"mutex", holdfast.KindMutex, holdfast.ModeExclusive, 0, false, lock(c.Mutex("mutex"))},
			{"mutex", holdfast.KindMutex, holdfast.ModeExclusive, 0, true, func() error {
				return c.Mutex("mutex").TryDo(ctx, func(context.Context, *holdfast.Lease) error { return nil })
			}},
			{"key", holdfast.KindMutex, holdfast.ModeExclusive, 0, false, lock(c.MutexKey("key"))},
			{"redisson", holdfast.KindRedisson, holdfast.ModeExclusive, 0, false, lock(c.RedissonMutex("redisson"))},
			{"owner", holdfast.KindOwner, holdfast.ModeExclusive, 0, false, lock(c.OwnerMutex("owner", "me"))},
			{"rw", holdfast.KindRWMutex, holdfast.ModeReader, 0, false, lock(rw.Reader())},
			{"rw", holdfast.KindRWMutex, holdfast.ModeWriter, 0, false, lock(rw.Writer())},
			{"semaphore", holdfast.KindSemaphore, holdfast.ModePermits, 3, false, lock(sem.Permits(3))},
			{"a, b", holdfast.KindMulti, holdfast.ModeExclusive, 0, false, lock(c.Multi([]string{"a", "b"}))},
			{"once", holdfast.KindOnce, holdfast.ModeExclusive, 0, false, func() error {
				_, err := once.New(c, "once", once.Every(time.Hour)).Do(ctx, func(context.Context, *holdfast.Lease) (string, error) { return "", nil })
				return err
			}},
			{"election", holdfast.KindElection, holdfast.ModeExclusive, 0, false, func() error {
				return election.New(c.Mutex("election")).Run(ctx, func(context.Context, *holdfast.Lease) error { return nil })
			}},
			{"latch", holdfast.KindLatch, holdfast.ModeParty, 0, true, func() error {
				party, err := latch.New(c, "latch", 2).Register(ctx)
				if err != nil {
					return err
				}
				return party.CountDown(ctx)
			}},
			{"barrier", holdfast.KindBarrier, holdfast.ModeParty, 0, false, func() error {
				party, err := barrier.New(c, "barrier", 2).Join(ctx)
				if err != nil {
					return err
				}
				return party.Leave(ctx)
			}},
		} {
			before := len(r.Acquires())
			expect.OK(t, k.use())
			a := eventually(t, r, "AcquireStart", "AcquireEnd", "Released")
			expect.Equal(t, "acquires of "+k.name, len(r.Acquires())-before, 1)
			for what, e := range map[string]*holdfast.AcquireEvent{"AcquireStart": &a.Start, "AcquireEnd": a.End} {
				if e.Name != k.name || e.Kind != k.kind || e.Mode != k.mode || e.Permits != k.permits || e.Identity != "me" || e.Try != k.try || e.Start.IsZero() {
					t.Errorf("%s: %+v", what, *e)
				}
			}
			if a.End.Handover != holdfast.HandoverNone || a.End.Err != nil || a.End.Waited < 0 {
				t.Errorf("AcquireEnd: %+v", *a.End)
			}
			if l := a.Last; l.Permits != k.permits || l.Identity != "me" || l.Handover != holdfast.HandoverNone || l.Err != nil || l.Reason != "" || l.Held < 0 {
				t.Errorf("Released: %+v", *l)
			}
		}
	})
}

func TestObserversOfAWaiter(t *testing.T) {
	virtually(t, func(t *testing.T, b *backend.Backend) {
		other := b.Client(t, &holdfast.Config{Identity: "other"})
		c, r := observed(t, b, holdfast.Config{Identity: "me"})
		held := backend.Acquire(t, other.Mutex("x"))
		leases := queue(t, c.Mutex("x"), 1)
		behind := backend.Start(t, c.Mutex("x"))
		time.Sleep(time.Millisecond) // until it is queued within the process
		backend.Release(t, held)
		first := backend.Receive(t, leases)
		time.Sleep(20 * time.Millisecond) // a renewal reserves fences for the one behind
		backend.Release(t, first)
		second := backend.Receive(t, behind)
		all := r.Acquires()
		if a := all[0]; a.Queued == nil || a.Queued.Ahead != 0 || a.Queued.Holder.Identity != "other" {
			t.Errorf("AcquireQueued behind another process: %+v", a.Queued)
		}
		if a := all[0]; a.End.Handover != holdfast.HandoverServer || a.End.Fence != first.Fence() {
			t.Errorf("AcquireEnd of a lock from another process: %+v", *a.End)
		}
		if from, to := all[0].Last, all[1].End; from == nil || from.Handover != holdfast.HandoverLocal || to.Handover != holdfast.HandoverLocal {
			t.Errorf("within the process, the lock went by %+v and came by %+v", from, *to)
		}
		backend.Release(t, adopt(t, c, detach(t, second)))
		expect.Equal(t, "the hand-over by a ticket", r.Latest(t).End.Handover, holdfast.HandoverServer)

		first = backend.Acquire(t, c.Mutex("y"))
		leases = queue(t, c.Mutex("y"), 1)
		if q := r.Latest(t).Queued; q == nil || q.Holder.Identity != "me" || q.Holder.Fence != first.Fence() ||
			q.Holder.TTL <= 0 || q.Holder.Mode != holdfast.ModeExclusive {
			t.Errorf("AcquireQueued in the holder's process: %+v", q)
		}
		backend.Release(t, first)
		backend.Release(t, backend.Receive(t, leases))
		eventually(t, r, "AcquireStart", "AcquireQueued", "AcquireEnd", "Released")
	})
}

func TestObserversOfAnAcquireThatFails(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c, r := observed(t, b, holdfast.Config{})
		other := b.Client(t, &holdfast.Config{Identity: "other"})
		held := backend.Acquire(t, other.Mutex("x"))
		_, err := c.Mutex("x").TryAcquire(context.Background())
		a := eventually(t, r, "AcquireStart", "AcquireEnd")
		if !errors.Is(err, holdfast.ErrHeld) || !errors.Is(a.End.Err, holdfast.ErrHeld) || !a.End.Try || a.End.Holder.Identity != "other" || a.End.Fence != 0 || !backend.IsShown(a.End.Holder.Fence, held.Fence()) {
			t.Errorf("%v; AcquireEnd: %+v", err, *a.End)
		}

		ctx, cancel := context.WithCancel(context.Background())
		failed := async(func() error { return expect.ErrOf(c.Mutex("x").Acquire(ctx)) })
		backend.Waiters(t, c.Mutex("x"), 1)
		cancel()
		expect.Equal(t, "Acquire", <-failed, context.Canceled)
		a = eventually(t, r, "AcquireStart", "AcquireQueued", "AcquireEnd")
		if a.End.Err != context.Canceled || a.End.Waited < 0 || a.Start.Try {
			t.Errorf("AcquireEnd: %+v", *a.End)
		}

		_, err = c.Mutex("x", holdfast.Wait(time.Millisecond)).Acquire(context.Background())
		if late := b.Server != nil && errors.Is(err, holdfast.ErrUnavailable); !late { // a real server may answer too late
			expect.Err(t, "Acquire with Wait", err, holdfast.ErrHeld)
		}
		if a = eventually(t, r, "AcquireStart", "AcquireQueued", "AcquireEnd"); errors.Is(err, holdfast.ErrHeld) && a.End.Holder.Identity != "other" {
			t.Errorf("AcquireEnd: %+v", *a.End)
		}

		expect.Err(t, "Acquire", expect.ErrOf(c.Mutex("").Acquire(context.Background())), holdfast.ErrInvalid)
		if a = eventually(t, r, "AcquireStart", "AcquireEnd"); !errors.Is(a.End.Err, holdfast.ErrInvalid) {
			t.Errorf("AcquireEnd: %+v", *a.End)
		}

		failed = async(func() error { return expect.ErrOf(c.Mutex("x").Acquire(context.Background())) })
		backend.Waiters(t, other.Mutex("x"), 1)
		noError(t, c.Close(context.Background()))
		expect.Err(t, "Acquire", <-failed, holdfast.ErrClosed)
		if a = eventually(t, r, "AcquireStart", "AcquireQueued", "AcquireEnd"); !errors.Is(a.End.Err, holdfast.ErrClosed) {
			t.Errorf("AcquireEnd: %+v", *a.End)
		}
		backend.Release(t, held)
	})
}

func TestObserversOfALostLease(t *testing.T) {
	backend.EachLong(t, func(t *testing.T, b *backend.Backend) {
		var log journal
		c, r := observed(t, b, holdfast.Config{Identity: "me", Logger: log.config().Logger})
		for reason, l := range map[holdfast.LossReason]*holdfast.Lock{
			holdfast.LossExpired: c.Mutex("expires", holdfast.TTL(2*time.Second), holdfast.NoRenew()),
			holdfast.LossBound:   c.Mutex("bounded", holdfast.MaxHold(2*time.Second)),
		} {
			lease := backend.Acquire(t, l)
			<-lease.Done()
			a := eventually(t, r, "AcquireStart", "AcquireEnd", "Lost")
			var lost *holdfast.LostError
			if e := a.Last; e.Reason != reason || !errors.As(e.Err, &lost) || lost.Fence != lease.Fence() || lost.Name != l.Name() || e.Held <= 0 || e.Identity != "me" {
				t.Errorf("Lost: %+v", *e)
			}
			expect.Err(t, "Release", lease.Release(context.Background()), holdfast.ErrLost)
		}

		// Somebody deletes the lock; the release notices.
		lease := backend.Acquire(t, c.Mutex("deleted"))
		b.Redis(t).Del(context.Background(), "holdfast:{deleted}")
		expect.Err(t, "Release", lease.Release(context.Background()), holdfast.ErrLost)
		eventually(t, r, "AcquireStart", "AcquireEnd", "Lost")

		// Somebody ends an owner's lease.
		lease = backend.Acquire(t, c.OwnerMutex("owned", "me", holdfast.TTL(6*time.Second)))
		noError(t, expect.ErrOf(b.Client(t, nil).ReleaseOwner(context.Background(), "owned", "me")))
		<-lease.Done()
		expect.Equal(t, "Lost", eventually(t, r, "AcquireStart", "AcquireEnd", "Lost").Last.Reason, holdfast.LossSuperseded)
		backend.Eventually(t, "the losses are logged", func() bool {
			return strings.Contains(log.String(), `level=INFO msg="holdfast: lease lost" lock=owned reason=superseded`) && strings.Count(log.String(), `level=WARN msg="holdfast: lease lost"`) == 3
		})

		// One of several locks is lost, and with it all.
		lease = backend.Acquire(t, c.Multi([]string{"a", "b"}, holdfast.TTL(6*time.Second)))
		for _, key := range b.Keys(t) {
			b.Redis(t).Set(context.Background(), key, "another program's", time.Minute)
		}
		<-lease.Done()
		a := eventually(t, r, "AcquireStart", "AcquireEnd", "Lost")
		if a.Last.Kind != holdfast.KindMulti || a.Last.Name != "a, b" {
			t.Errorf("Lost: %+v", *a.Last)
		}
		_ = lease.Release(context.Background())
	})
}

func TestObserversOfRenewals(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c, r := observed(t, b, holdfast.Config{})
		lease := backend.Acquire(t, c.Mutex("x"))
		expect.OK(t, lease.Extend(context.Background(), time.Minute))
		a := r.Latest(t)
		if len(a.Leases) != 1 {
			t.Fatalf("told was %v", a.Events)
		}
		e := a.Leases[0]
		if !e.Deadline.Equal(lease.Deadline()) || e.Slack <= 0 || e.Slack > time.Minute || e.Err != nil || e.Fence != lease.Fence() || e.Granted.IsZero() {
			t.Errorf("Renewed: %+v", e)
		}
		backend.Release(t, lease)

		backend.Eventually(t, "a renewal of several locks", func() bool {
			lease := backend.Acquire(t, c.Multi([]string{"a", "b"}))
			defer backend.Release(t, lease)
			expect.OK(t, lease.Extend(context.Background(), time.Minute))
			a := r.Latest(t)
			for _, e := range a.Leases {
				if e.Name != "a, b" || e.Kind != holdfast.KindMulti || e.Deadline.IsZero() {
					t.Errorf("Renewed: %+v", e)
				}
			}
			return len(a.Leases) >= 2
		})
	})
}

func TestObserversOfAChangeOfMode(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		ctx := context.Background()
		c, r := observed(t, b, holdfast.Config{})
		rw := c.RWMutex("x")
		writer := backend.Acquire(t, rw.Writer())
		reader := expect.Of(rw.Downgrade(ctx, writer)).OK(t)
		other := backend.Acquire(t, b.Client(t, nil).RWMutex("x").Reader())
		expect.Err(t, "TryUpgrade", expect.ErrOf(rw.TryUpgrade(ctx, reader)), holdfast.ErrHeld)
		backend.Release(t, other)
		again := expect.Of(rw.TryUpgrade(ctx, reader)).OK(t)
		backend.Release(t, again)
		eventually(t, r, "AcquireStart", "AcquireEnd", "Released")
		type change struct {
			mode holdfast.Mode
			try  bool
			held bool
		}
		var got []change
		for _, a := range r.Acquires() {
			got = append(got, change{a.Start.Mode, a.Start.Try, errors.Is(a.End.Err, holdfast.ErrHeld)})
		}
		expect.Same(t, "the acquires", got, []change{{"writer", false, false}, {"reader", false, false}, {"writer", true, true}, {"writer", true, false}})
	})
}

func TestObserversOfLeasesWithinALease(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c, r := observed(t, b, holdfast.Config{})
		l := c.Mutex("x", holdfast.Reentrant())
		err := l.Do(context.Background(), func(ctx context.Context, outer *holdfast.Lease) error {
			return l.Do(ctx, func(_ context.Context, inner *holdfast.Lease) error {
				all := r.Acquires()
				if len(all) != 2 || all[0].End.Fence != outer.Fence() || all[1].End.Fence != inner.Fence() {
					t.Errorf("%d acquires were observed", len(all))
				}
				return nil
			})
		})
		noError(t, err)
		if all := r.Acquires(); all[0].Last == nil || all[1].Last == nil {
			t.Error("a lease has no last event")
		}
	})
}

func TestALeaseThatIsReleasedAfterTheClientBeganToClose(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c, r := observed(t, b, holdfast.Config{})
		released, kept := backend.Acquire(t, c.Mutex("released")), backend.Acquire(t, c.Multi([]string{"a", "b"}, holdfast.TTL(6*time.Second)))
		closed := async(func() error { return c.Close(context.Background()) })
		<-released.Done()
		<-kept.Done()
		backend.Release(t, released)
		noError(t, <-closed)
		// Close has waited for all observers.
		all := r.Acquires()
		if a := all[0]; a.Last == nil || a.Lost {
			t.Errorf("of the lease that was released, told was %v", a.Events)
		}
		if a := all[1]; a.Last == nil || !a.Lost || a.Last.Reason != holdfast.LossExpired {
			t.Errorf("of the lease that was not released, told was %v", a.Events)
		}
	})
}

// Whatever an observer calls of the locks, it does not wait for itself. (In virtual time, which stands still while somebody
// waits for a mutex, the test would not end.)
func TestObserversAreCalledWithoutALock(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		ctx := context.Background()
		var c *holdfast.Client
		var lease atomic.Pointer[holdfast.Lease]
		type key string
		var used sync.Map // the names of events for which it was tried
		called := make(chan string, 100)
		use := func(ctx context.Context, what string) {
			if ctx.Value(key("inside")) != nil {
				return
			}
			if _, again := used.LoadOrStore(what, true); again {
				return
			}
			ctx = context.WithValue(context.Background(), key("inside"), true)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if l := lease.Load(); l != nil {
					_, _, _ = l.Err(), l.Deadline(), l.Context(ctx)
					_ = l.Extend(ctx, time.Second)
				}
				_, _ = c.Mutex("x").Status(ctx)
				if l, err := c.Mutex("x").TryAcquire(ctx); err == nil {
					_ = l.Release(ctx)
				}
			}()
			select {
			case <-done:
			case <-time.After(20 * time.Second):
				t.Errorf("what %s calls waits for it", what)
			}
			called <- what
		}
		c = b.Client(t, &holdfast.Config{Observers: []*holdfast.Observer{{
			AcquireStart: func(ctx context.Context, _ holdfast.AcquireEvent) context.Context {
				use(ctx, "AcquireStart")
				return ctx
			},
			AcquireQueued: func(ctx context.Context, _ holdfast.AcquireEvent) { use(ctx, "AcquireQueued") },
			AcquireEnd:    func(ctx context.Context, _ holdfast.AcquireEvent) { use(ctx, "AcquireEnd") },
			Renewed:       func(ctx context.Context, _ holdfast.LeaseEvent) { use(ctx, "Renewed") },
			Lost:          func(ctx context.Context, _ holdfast.LeaseEvent) { use(ctx, "Lost") },
			Released:      func(ctx context.Context, _ holdfast.LeaseEvent) { use(ctx, "Released") },
		}}})
		came := map[string]bool{}
		expect := func(what string) {
			t.Helper()
			for !came[what] {
				select {
				case got := <-called:
					came[got] = true
				case <-time.After(time.Minute):
					t.Fatalf("%s did not return", what)
				}
			}
		}
		go func() { lease.Store(backend.Acquire(t, c.Mutex("x"))) }()
		expect("AcquireStart")
		expect("AcquireEnd")
		backend.Eventually(t, "the lease", func() bool { return lease.Load() != nil })
		leases := backend.Start(t, c.Mutex("x"))
		expect("AcquireQueued")
		go func() { _ = lease.Load().Extend(ctx, time.Second) }()
		expect("Renewed")
		go func() { _ = lease.Load().Release(ctx) }()
		expect("Released")
		second := backend.Receive(t, leases)
		lease.Store(second)
		// Only this key: if the server lost all its data, a renewal might take the lock back before the release.
		b.Redis(t).Del(ctx, "holdfast:{x}")
		go func() { _ = second.Release(ctx) }()
		expect("Lost")
	})
}

func TestAnObserverThatPanics(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		var log journal
		first := &holdfast.Observer{
			AcquireStart: func(context.Context, holdfast.AcquireEvent) context.Context { panic("start") },
			AcquireEnd:   func(context.Context, holdfast.AcquireEvent) { panic("end") },
			Released:     func(context.Context, holdfast.LeaseEvent) { panic("released") },
		}
		c, r := observed(t, b, holdfast.Config{Observers: []*holdfast.Observer{first}, Logger: log.config().Logger})
		l := c.Mutex("x")
		for range 2 {
			expect.OK(t, l.Do(context.Background(), func(context.Context, *holdfast.Lease) error { return nil }))
		}
		eventually(t, r, "AcquireStart", "AcquireEnd", "Released")
		noError(t, c.Close(context.Background()))
		for _, what := range []string{"panic=start", "panic=end", "panic=released", "observer_test.go"} {
			expect.Contains(t, "the log", log.String(), what)
		}
	})
}

// values are those of the observers' contexts, not of the caller's.
func TestTheContextsOfObservers(t *testing.T) {
	b := backend.Embedded(t)
	type key string
	var log []string
	see := func(who string) *holdfast.Observer {
		note := func(ctx context.Context, what string) {
			var have []string
			for _, k := range []key{"caller", "first", "second"} {
				if ctx.Value(k) != nil {
					have = append(have, string(k))
				}
			}
			log = append(log, who+" "+what+": "+strings.Join(have, " "))
		}
		return &holdfast.Observer{
			AcquireStart: func(ctx context.Context, _ holdfast.AcquireEvent) context.Context {
				note(ctx, "start")
				return context.WithValue(ctx, key(who), true)
			},
			AcquireEnd: func(ctx context.Context, _ holdfast.AcquireEvent) { note(ctx, "end") },
			Released:   func(ctx context.Context, _ holdfast.LeaseEvent) { note(ctx, "released") },
		}
	}
	c := b.Client(t, &holdfast.Config{Observers: []*holdfast.Observer{see("first"), see("second")}})
	ctx := context.WithValue(context.Background(), key("caller"), true)
	err := c.Mutex("x").Do(ctx, func(ctx context.Context, lease *holdfast.Lease) error {
		for _, ctx := range []context.Context{ctx, lease.Context(ctx)} {
			if ctx.Value(key("caller")) == nil || ctx.Value(key("first")) != nil {
				t.Error("the caller's context has not just the caller's values")
			}
		}
		return nil
	})
	expect.OK(t, err)
	want := []string{
		"first start: caller", "second start: caller first",
		"first end: caller first second", "second end: caller first second",
		"first released: caller first second", "second released: caller first second",
	}
	expect.Same(t, "told was", log, want)
}

// Close returns after the observers' functions have, so that what they write to may then be closed.
func TestCloseWaitsForObservers(t *testing.T) {
	ctx := context.Background()
	b := backend.Embedded(t)
	for _, what := range []string{"AcquireEnd", "Released", "Released by Detach", "Released of Multi"} {
		t.Run(what, func(t *testing.T) {
			entered, leave := make(chan struct{}), make(chan struct{})
			var left atomic.Bool
			wait := func() {
				close(entered)
				<-leave
				left.Store(true)
			}
			o := &holdfast.Observer{}
			if what == "AcquireEnd" {
				o.AcquireEnd = func(context.Context, holdfast.AcquireEvent) { wait() }
			} else {
				o.Released = func(context.Context, holdfast.LeaseEvent) { wait() }
			}
			c := b.Client(t, &holdfast.Config{Observers: []*holdfast.Observer{o}})
			switch what {
			case "AcquireEnd":
				held := backend.Acquire(t, b.Client(t, nil).Mutex("x"))
				defer backend.Release(t, held)
				go func() { _, _ = c.Mutex("x").TryAcquire(ctx) }()
			case "Released":
				lease := backend.Acquire(t, c.Mutex("x"))
				go func() { _ = lease.Release(ctx) }()
			case "Released by Detach":
				lease := backend.Acquire(t, c.Mutex("y"))
				go func() { _, _ = transfer.Detach(ctx, lease, time.Second) }()
			case "Released of Multi":
				lease := backend.Acquire(t, c.Multi([]string{"a", "b"}))
				go func() { _ = lease.Release(ctx) }()
			}
			<-entered
			time.AfterFunc(300*time.Millisecond, func() { close(leave) })
			noError(t, c.Close(ctx))
			if !left.Load() {
				t.Error("Close has returned while the function runs")
			}
		})
	}
}
