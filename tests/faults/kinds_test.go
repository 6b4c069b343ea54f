package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

// severalThrough returns a client through p, and three locks as one, which it has already acquired once.
func severalThrough(t *testing.T, b *place, p *proxy.Proxy, cfg holdfast.Config, opts ...holdfast.MultiOption) (
	*holdfast.Client, *holdfast.Lock) {
	t.Helper()
	c := b.through(t, p, cfg)
	backend.Release(t, backend.Acquire(t, c.Multi([]string{"a", "b", "c"})))
	return c, c.Multi([]string{"c", "a", "b"}, opts...)
}

// free requires that nobody holds any of the locks.
func free(t *testing.T, b *place, names ...string) {
	t.Helper()
	for _, name := range names {
		expect.Err(t, "the holder of "+name, expect.ErrOf(backend.HolderOf(t.Context(), b.Client(t, nil).Mutex(name))), holdfast.ErrNotHeld)
	}
}

// Fault: A reply to a request for several locks is lost, whichever it is. All of them are acquired or none, and all
// are released.
func TestLostRepliesToSeveral(t *testing.T) {
	eachPlace(t, func(t *testing.T, b *place) {
		for what, after := range map[string]proxy.After{"connection cut": proxy.Cut, "silence": proxy.Hang} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				b := newPlace(t, b.Server.Binary())
				p := proxy.New(t, b.Server.Addr())
				c, all := severalThrough(t, b, p, steady)
				t.Run("acquire", func(t *testing.T) {
					trap := p.LoseReply(running(script.MultiAcquire(), "a"), after)
					lease := backend.Acquire(t, all)
					expect.Contains(t, "the lost reply", trap.Reply(t), "granted")
					deadline, now := lease.Deadline(), time.Now()
					for name, fence := range lease.Fences() {
						h, err := backend.HolderOf(t.Context(), c.Mutex(name))
						if err != nil || h.Fence != fence || deadline.After(now.Add(h.TTL+time.Since(now))) {
							t.Errorf("%q with fence %d until %s: %+v, %v", name, fence, deadline, h, err)
						}
					}
					backend.Release(t, lease)
					b.Cleaned(t)
				})
				t.Run("acquire of one of them", func(t *testing.T) {
					taken := backend.Acquire(t, b.Client(t, nil).Mutex("c"))
					trap := p.LoseReply(acquiring("b"), after)
					leases := backend.Start(t, all)
					trap.Wait(t)
					backend.Release(t, taken)
					backend.Release(t, backend.Receive(t, leases))
					b.Cleaned(t)
				})
				t.Run("release of one of them", func(t *testing.T) {
					lease := backend.Acquire(t, all)
					p.LoseReply(releasing("b"), after)
					if err := lease.Release(t.Context()); err != nil && (!errors.Is(err, holdfast.ErrAmbiguous) || errors.Is(err, holdfast.ErrLost)) {
						t.Errorf("Release, repeated after a lost reply: %v", err)
					}
					b.Cleaned(t)
				})
			})
		}
	})
}

// Fault: Requests for several locks are doubled, or a copy comes after the lease. Both copies acquire the locks once,
// and the late one acquires nothing.
func TestLateAndDoubledCopiesForSeveral(t *testing.T) {
	eachPlace(t, func(t *testing.T, b *place) {
		p := proxy.New(t, b.Server.Addr())
		_, all := severalThrough(t, b, p, patient)
		held := p.Hold(running(script.MultiAcquire(), "a"), proxy.Cut)
		backend.Release(t, backend.Acquire(t, all))
		for _, when := range []string{"at once", "after a while"} { // with tombstones, and without
			expect.Lacks(t, "the late copy's answer, "+when, held.Forward(t), "granted")
			free(t, b, "a", "b", "c")
			b.Cleaned(t)
		}

		held = p.Hold(running(script.MultiAcquire(), "a"), proxy.Hang)
		abandon(t, all, held, func() {})
		backend.Eventually(t, "the tombstones stand", func() bool { return len(b.Keys(t)) == 3 })
		expect.Lacks(t, "the late copy's answer", held.Forward(t), "granted")
		free(t, b, "a", "b", "c")
		b.Cleaned(t)

		_, all = severalThrough(t, b, p, patient)
		for range 10 { // either copy may come first
			trap := p.Double(running(script.MultiAcquire(), "a"))
			lease := backend.Acquire(t, all)
			expect.Contains(t, "the second copy is answered", trap.Reply(t), "granted")
			backend.Release(t, lease)
			free(t, b, "a", "b", "c")
		}
		b.Cleaned(t)
	})
}

// Fault: The context ends while several locks are acquired. Those acquired so far are released.
func TestSeveralCancelledInTheMiddle(t *testing.T) {
	eachPlace(t, func(t *testing.T, b *place) {
		p := proxy.New(t, b.Server.Addr())
		_, all := severalThrough(t, b, p, patient, holdfast.TTL(time.Minute))
		other := b.Client(t, nil)
		p.DelayReplies(20 * time.Millisecond)
		for i := range 30 {
			taken := (*holdfast.Lease)(nil)
			if i%2 == 1 { // then they are acquired one by one
				taken = backend.Acquire(t, other.Mutex("c"))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*4)*time.Millisecond)
			lease, err := all.Acquire(ctx)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire: %v", err)
			}
			if taken != nil {
				expect.Fails(t, "an acquire of three locks, one of them another's", err)
				backend.Release(t, taken)
			}
			begun := time.Now()
			behind := backend.Start(t, other.Multi([]string{"a", "b", "c"}))
			if err == nil {
				backend.Release(t, lease)
			}
			backend.ReleaseSince(t, begun, backend.Receive(t, behind)) // long before the minute is over
		}
		b.Cleaned(t)
	})
}

// Fault: One of several locks is lost. A waiter for all of them gets them when the others are released or expire, but
// not before the holder has been told.
func TestSeveralAreTakenOverWhenOneIsLost(t *testing.T) {
	eachPlace(t, func(t *testing.T, b *place) {
		for _, released := range []bool{true, false} {
			const ttl = 6 * time.Second // a tombstone lasts that long, so that the holder does not take the lock again
			names := []string{"a", "b", "c"}
			lease := backend.Acquire(t, b.Client(t, nil).Multi(names, holdfast.TTL(ttl)))
			next := backend.Start(t, b.Client(t, nil).Multi(names))
			backend.Waiters(t, b.Client(t, nil).Mutex("a"), 1)
			b.Redis(t).Del(t.Context(), "holdfast:{b}")
			if released {
				expect.Err(t, "Extend", lease.Extend(t.Context(), ttl), holdfast.ErrLost)
				expect.Err(t, "Release", lease.Release(t.Context()), holdfast.ErrLost)
			}
			after := backend.Receive(t, next)
			expect.Err(t, "others have all, and the holder before is told", lease.Err(), holdfast.ErrLost)
			for _, name := range names {
				expect.Rises(t, lease.Fences()[name], after.Fences()[name])
			}
			backend.Release(t, after)
			b.Cleaned(t)
		}
	})
}

// succeeds is a run of a job.
func succeeds(context.Context, *holdfast.Lease) (string, error) { return "done", nil }

// jobThrough returns a job by its window's name. The server has its scripts.
func jobThrough(t *testing.T, p *proxy.Proxy) func(window string) *once.Job {
	t.Helper()
	c := through(t, p, steady)
	job := func(window string) *once.Job { return once.New(c, "j", once.Slot(window, time.Hour)) }
	expect.OK(t, expect.ErrOf(job("warm-up").Do(t.Context(), succeeds)))
	return job
}

// Fault: Replies to the requests of a job are lost. A begin counts once, and a completion is recognized as the
// caller's own.
func TestLostRepliesToJobs(t *testing.T) {
	eachPlace(t, func(t *testing.T, b *place) {
		p := proxy.New(t, b.Server.Addr())
		job := jobThrough(t, p)
		for what, after := range map[string]proxy.After{"connection cut": proxy.Cut, "silence": proxy.Hang} {
			for _, s := range []script.Script{script.OnceBegin(), script.OnceComplete()} {
				window := s.Name + " " + what
				trap := p.LoseReply(running(s, "j"), after)
				run, err := job(window).Do(t.Context(), succeeds)
				if err != nil || !run.Here || run.Try != 1 {
					t.Errorf("%s: %+v, %v", window, run, err)
				}
				trap.Reply(t)
				again, err := job(window).Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
					t.Errorf("%s: it runs again", window)
					return "", nil
				})
				if err != nil || again.Fence != run.Fence || again.Try != 1 || !again.Time.Equal(run.Time) {
					t.Errorf("%s: it was %+v, and is %+v, %v", window, run, again, err)
				}
			}
		}
		free(t, b, "j")
	})
}

// Fault: A job's requests are doubled, or a copy comes after the run. Both copies count once; the late one changes
// nothing, not even if another run has begun.
func TestLateAndDoubledCopiesForJobs(t *testing.T) {
	eachPlace(t, func(t *testing.T, b *place) {
		p := proxy.New(t, b.Server.Addr())
		job := jobThrough(t, p)
		fails := errors.New("fails")
		for _, s := range []script.Script{script.OnceBegin(), script.OnceComplete()} {
			// The first run's completion is late, and fails after the second run's begin; the second run is
			// completed.
			window := "late " + s.Name
			held := p.Hold(running(s, "j"), proxy.Cut)
			first, err := job(window).Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
				if s == script.OnceBegin() {
					return "", fails
				}
				return "first", nil
			})
			if s == script.OnceBegin() && !errors.Is(err, fails) || s == script.OnceComplete() && (err != nil || !first.Here) {
				t.Errorf("%s: %+v, %v", window, first, err)
			}
			if s == script.OnceBegin() {
				held.Forward(t)
				run, err := job(window).Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
					held.Forward(t) // while another runs
					return "second", nil
				})
				if err != nil || run.Try != 2 {
					t.Errorf("%s: the second run: %+v, %v", window, run, err)
				}
				first = run
			}
			held.Forward(t)
			last, err := job(window).Last(t.Context())
			if err != nil || last.Fence != first.Fence || last.Try != first.Try || !last.Time.Equal(first.Time) {
				t.Errorf("%s: it was %+v, and after a late copy is %+v, %v", window, first, last, err)
			}

			window = "doubled " + s.Name
			trap := p.Double(running(s, "j"))
			run, err := job(window).Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
				if s == script.OnceBegin() {
					trap.Reply(t)
				}
				return "", nil
			})
			if err != nil || !run.Here || run.Try != 1 {
				t.Errorf("%s: %+v, %v", window, run, err)
			}
			if s == script.OnceComplete() {
				trap.Reply(t)
			}
			if last, err := job(window).Last(t.Context()); err != nil || last.Try != 1 || last.Fence != run.Fence {
				t.Errorf("%s: it was %+v, and is %+v, %v", window, run, last, err)
			}
		}
		free(t, b, "j")
	})
}

// Fault: The completion of a run that has lost its lock comes late. It has no effect, whoever has the lock by then.
func TestLateCompletionOfALostRun(t *testing.T) {
	eachPlace(t, func(t *testing.T, b *place) {
		p := proxy.New(t, b.Server.Addr())
		job := jobThrough(t, p)
		held := p.Hold(running(script.OnceComplete(), "j"), proxy.Hang)
		failed := make(chan error, 1)
		go func() {
			_, err := job("w").Do(t.Context(), succeeds)
			failed <- err
		}()
		held.Wait(t)
		expect.OK(t, b.Redis(t).Del(t.Context(), "holdfast:{j}").Err())
		expect.Err(t, "Do", <-failed, holdfast.ErrLost)
		other := once.New(b.Client(t, nil), "j", once.Slot("w", time.Hour))
		run, err := other.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
			expect.Contains(t, "the late completion is answered", held.Forward(t), "gone")
			return "second", nil
		})
		if err != nil || !run.Here || run.Result != "second" || run.Try != 2 {
			t.Errorf("the second run: %+v, %v", run, err)
		}
	})
}
