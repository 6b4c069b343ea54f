package behaviour

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// wantDeadlock expects that l cannot be acquired with ctx in any way, and that the error names the lock.
func wantDeadlock(t testing.TB, what string, l *holdfast.Lock, ctx context.Context, name string) {
	t.Helper()
	never := func(context.Context, *holdfast.Lease) error {
		t.Errorf("%s: the function was called", what)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // for a lock that waits for itself
	defer cancel()
	for way, acquire := range map[string]func() error{
		"Acquire":    func() error { _, err := l.Acquire(ctx); return err },
		"TryAcquire": func() error { _, err := l.TryAcquire(ctx); return err },
		"Do":         func() error { return l.Do(ctx, never) },
		"TryDo":      func() error { return l.TryDo(ctx, never) },
	} {
		expect.ErrSays(t, what+": "+way, acquire(), holdfast.ErrDeadlock, `"`+name+`"`)
	}
}

// inLease acquires l with ctx and returns a context that carries its lease, too.
func inLease(t testing.TB, l *holdfast.Lock, ctx context.Context) context.Context {
	t.Helper()
	lease := expect.Of(l.Acquire(ctx)).OK(t)
	t.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease.Context(ctx)
}

// An acquire that would wait for the caller's own lease fails at once.
//
// Bug: A caller waits for itself.
func TestAnAcquireWithinItsOwnLeaseFailsAtOnce(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		ctx := context.Background()
		rw := c.RWMutex("rw")
		again := c.RWMutex("rw-again", holdfast.Reentrant())
		for what, test := range map[string]struct {
			outer, inner *holdfast.Lock
			name         string
		}{
			"a mutex":                         {c.Mutex("a"), c.Mutex("a", holdfast.TTL(time.Minute)), "a"},
			"a mutex that polls":              {c.Mutex("poll"), c.Mutex("poll", holdfast.Poll(10*time.Millisecond)), "poll"},
			"a mutex with a limit":            {c.Mutex("limit"), c.Mutex("limit", holdfast.Wait(0)), "limit"},
			"a Reentrant mutex, not again":    {c.Mutex("b", holdfast.Reentrant()), c.Mutex("b"), "b"},
			"a mutex, Reentrant within":       {c.Mutex("c"), c.Mutex("c", holdfast.Reentrant()), "c"},
			"a mutex by its key":              {c.MutexKey("key"), c.MutexKey("key"), "key"},
			"a mutex of Redisson's":           {c.RedissonMutex("rl"), c.RedissonMutex("rl"), "rl"},
			"another owner":                   {c.OwnerMutex("own", "x"), c.OwnerMutex("own", "y"), "own"},
			"a writer within a writer":        {rw.Writer(), rw.Writer(), "rw"},
			"a reader within a writer":        {rw.Writer(), rw.Reader(), "rw"},
			"a writer within a reader":        {rw.Reader(), rw.Writer(), "rw"},
			"a reader within a reader":        {rw.Reader(), rw.Reader(), "rw"},
			"a Reentrant writer in a reader":  {again.Reader(), again.Writer(), "rw-again"},
			"all permits and one more":        {c.Semaphore("s", 2).Permits(2), c.Semaphore("s", 2).Permits(1), "s"},
			"a permit and then all":           {c.Semaphore("s", 2).Permits(1), c.Semaphore("s", 2).Permits(2), "s"},
			"one of several":                  {c.Multi([]string{"m1", "m2"}), c.Mutex("m2"), "m2"},
			"several, of which one is held":   {c.Mutex("n2"), c.Multi([]string{"n1", "n2"}), "n2"},
			"several, all Reentrant but held": {c.Mutex("o2"), c.Multi([]string{"o1", "o2"}, holdfast.Reentrant()), "o2"},
		} {
			lease := backend.Acquire(t, test.outer)
			elsewhere := inLease(t, c.Mutex("elsewhere, "+what), lease.Context(ctx))
			wantDeadlock(t, what, test.inner, lease.Context(ctx), test.name)
			wantDeadlock(t, what+", further in", test.inner, context.WithoutCancel(elsewhere), test.name)
			expect.Err(t, what+": the lease is over", lease.Err(), nil)
			backend.Release(t, lease)
		}
		err := c.Mutex("d").Do(ctx, func(ctx context.Context, _ *holdfast.Lease) error {
			wantDeadlock(t, "in Do", c.Mutex("d"), ctx, "d")
			return nil
		})
		noError(t, err)
	})
}

// An acquire that does not wait for the caller's lease is allowed: of another lock, with another client, without the lease's
// context, or of what is left of a semaphore.
func TestWhatIsNoDeadlock(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c, other := b.Client(t, nil), b.Client(t, nil)
		ctx := context.Background()
		lease := backend.Acquire(t, c.Mutex("a"))
		work := lease.Context(ctx)
		inLease(t, c.Mutex("b"), work)
		inLease(t, c.RWMutex("rw").Reader(), work)
		for what, try := range map[string]func() error{
			"another client's":                func() error { _, err := other.Mutex("a").TryAcquire(work); return err },
			"without the context":             func() error { _, err := c.Mutex("a").TryAcquire(ctx); return err },
			"one of several, held without it": func() error { _, err := c.Multi([]string{"b", "x"}).TryAcquire(work); return err },
		} {
			expect.Err(t, what, try(), holdfast.ErrHeld)
		}
		s := c.Semaphore("s", 3)
		one := inLease(t, s.Permits(1), ctx)
		two := inLease(t, s.Permits(1), one)
		lease2 := expect.Of(s.Permits(1).TryAcquire(two)).OK(t)
		wantDeadlock(t, "a fourth permit", s.Permits(1), lease2.Context(two), "s")
		// Each lease counts once, however often the context was made from it.
		backend.Release(t, lease2)
		twice := expect.Of(s.Permits(1).TryAcquire(inLease(t, c.Mutex("c"), lease.Context(lease.Context(two))))).OK(t)
		backend.Release(t, twice)
	})
}

// Resize overrules the number of permits that a caller gives, and with it what counts as waiting for itself.
func TestTheServersNumberOfPermitsDecidesWhatIsADeadlock(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		s := b.Client(t, nil).Semaphore("s", 1)
		expect.OK(t, s.Resize(t.Context(), 2))
		one := inLease(t, s.Permits(1), context.Background())
		two := inLease(t, s.Permits(1), one)
		wantDeadlock(t, "a third permit of two", s.Permits(1), two, "s")
	})
}

// A lease that is over does not count.
func TestALeaseThatIsOverIsNoDeadlock(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		ctx := context.Background()
		for _, end := range []func(l *holdfast.Lease){
			func(l *holdfast.Lease) { backend.Release(t, l) },
			func(l *holdfast.Lease) {
				b.Redis(t).Del(ctx, "holdfast:{a}")
				expect.Err(t, "Extend", l.Extend(ctx, time.Minute), holdfast.ErrLost)
			},
		} {
			lease := backend.Acquire(t, c.Mutex("a"))
			work := context.WithoutCancel(lease.Context(ctx))
			end(lease)
			next := expect.Of(c.Mutex("a").Acquire(work)).OK(t)
			backend.Release(t, next)
		}
		// A nested lease that is over does not hide the one around it.
		l := c.Mutex("b", holdfast.Reentrant())
		outer := backend.Acquire(t, l)
		inner := expect.Of(l.Acquire(outer.Context(ctx))).OK(t)
		work := context.WithoutCancel(inner.Context(outer.Context(ctx)))
		backend.Release(t, inner)
		again := expect.Of(l.TryAcquire(work)).OK(t)
		wantDeadlock(t, "without Reentrant", c.Mutex("b"), work, "b")
		backend.Release(t, again)
		backend.Release(t, outer)
		if b.Server == nil { // what the lost lease leaves behind lasts as long as a TTL
			b.Cleaned(t)
		}
	})
}

// A job of Once, an election and a barrier are refused within themselves, too.
func TestRunsAndTermsWithinThemselvesFailAtOnce(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		ctx := lasting(t, 20*time.Second) // for a lock that waits for itself
		job := once.New(c, "job", once.Every(time.Hour))
		_, err := job.Do(ctx, func(ctx context.Context, _ *holdfast.Lease) (string, error) {
			_, err := job.Do(ctx, func(context.Context, *holdfast.Lease) (string, error) { return "", nil })
			expect.Err(t, "a job within its own run", err, holdfast.ErrDeadlock)
			return "", err
		})
		expect.Err(t, "the job", err, holdfast.ErrDeadlock)
		e := election.New(c.Mutex("e"))
		err = e.Run(ctx, func(ctx context.Context, _ *holdfast.Lease) error {
			return e.Run(ctx, func(context.Context, *holdfast.Lease) error { return nil })
		})
		expect.ErrSays(t, "an election within its own term", err, holdfast.ErrDeadlock, `"e"`)
		theBarrier := barrier.New(c, "b", 2)
		first := expect.Of(theBarrier.Join(ctx)).OK(t)
		inFirst := first.Lease().Context(ctx)
		second := expect.Of(theBarrier.Join(inFirst)).OK(t)
		expect.Err(t, "a third party of two", expect.ErrOf(theBarrier.Join(second.Lease().Context(inFirst))), holdfast.ErrDeadlock)
		_, _ = second.Leave(ctx), first.Leave(ctx)
		theLatch := latch.New(c, "l", 1)
		party := expect.Of(theLatch.Register(ctx)).OK(t)
		expect.Err(t, "a second party of one", expect.ErrOf(theLatch.Register(party.Lease().Context(ctx))), holdfast.ErrHeld)
		_ = party.Leave(ctx)
	})
}

// Callers that wait for each other, in two processes, are told of it: one of them, with the names of both. A list shows them if they do not
// want to know.
func TestCallersThatWaitForEachOther(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		for _, ignore := range []bool{false, true} {
			var leases []*holdfast.Lease
			var clients []*holdfast.Client
			for i, name := range []string{"stock", "orders"} {
				clients = append(clients, b.Client(t, &holdfast.Config{Identity: fmt.Sprint("api-", i), IgnoreDeadlocks: ignore}))
				leases = append(leases, backend.Acquire(t, clients[i].Mutex(name)))
			}
			ctx := lasting(t, time.Minute)
			stuck, leave := context.WithCancel(ctx)
			errs := make(chan error, 2)
			for i := range leases {
				go func() {
					next, err := clients[i].Mutex(leases[1-i].Name()).Acquire(leases[i].Context(stuck))
					errs <- errors.Join(err, leases[i].Release(ctx))
					if err == nil {
						errs <- next.Release(ctx)
					}
				}()
			}
			if ignore {
				in := inspect.New(clients[0])
				backend.Eventually(t, "the deadlock is listed", func() bool {
					all := expect.Of(in.Deadlocks(ctx)).OK(t)
					return len(all) == 1 && len(all[0].Circle) == 2
				})
				leave()
				expect.Err(t, "Acquire", <-errs, context.Canceled)
				expect.Err(t, "Acquire", <-errs, context.Canceled)
				continue
			}
			told := 0
			for range 3 { // the one that goes on also releases what it got
				switch err := <-errs; {
				case errors.Is(err, holdfast.ErrDeadlock):
					expect.ErrSays(t, "Acquire", err, holdfast.ErrDeadlock, " waits for ")
					told++
				default:
					expect.OK(t, err)
				}
			}
			expect.Equal(t, "callers that are told", told, 1)
			leave()
		}
	})
}

// A circle is found through one of many holders, of whom the server tells a hundred or so at a time.
func TestACircleThroughOneOfManyReaders(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		ctx := lasting(t, time.Minute)
		apart, other := b.Client(t, &holdfast.Config{MaxLocalHandovers: -1}), b.Client(t, nil)
		m := backend.Acquire(t, other.Mutex("m"))
		var leases []*holdfast.Lease
		for range 600 { // a small hash tells all its entries at once
			leases = append(leases, backend.Acquire(t, apart.RWMutex("rw").Reader()))
		}
		ends := make(chan error, 2)
		wait := func(l *holdfast.Lock, within *holdfast.Lease) {
			lease, err := l.Acquire(within.Context(ctx))
			ends <- err
			if err == nil {
				_ = lease.Release(ctx)
			}
		}
		go wait(apart.Mutex("m"), leases[300])
		go wait(other.RWMutex("rw").Writer(), m)
		var found *holdfast.DeadlockError
		if err := <-ends; !errors.As(err, &found) {
			t.Fatal(err)
		}
		modes := map[string]holdfast.Mode{}
		for _, h := range found.Circle {
			modes[h.Name] = h.Mode
		}
		expect.Equal(t, "the circle", fmt.Sprint(modes), "map[m:exclusive rw:reader]")
		for _, lease := range append(leases, m) {
			_ = lease.Release(ctx)
		}
		<-ends
	})
}
