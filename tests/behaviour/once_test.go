package behaviour

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
)

// job is one that is done once an hour, by a client of its own.
func job(t testing.TB, b *backend.Backend, opts ...holdfast.Option) *holdfast.Once {
	return b.Client(t, nil).Once("j", holdfast.Every(time.Hour), opts...)
}

var errBroken = errors.New("broken")

// succeed and fail are runs.
func succeed(context.Context, *holdfast.Lease) (string, error) { return "fine", nil }
func fail(context.Context, *holdfast.Lease) (string, error)    { return "", errBroken }

// mustNotRun is a run that is one too many.
func mustNotRun(t testing.TB) func(context.Context, *holdfast.Lease) (string, error) {
	return func(context.Context, *holdfast.Lease) (string, error) {
		t.Error("it runs again")
		return "again", nil
	}
}

func TestOnceIsDoneOnce(t *testing.T) {
	t.Parallel()
	backend.EachUndisturbed(t, func(t testing.TB, b *backend.Backend) {
		j := job(t, b, holdfast.Owner("me"))
		if _, err := j.Last(t.Context()); !errors.Is(err, holdfast.ErrNotDone) {
			t.Errorf("Last before any run: %v", err)
		}
		var fence uint64
		run, err := j.Do(t.Context(), func(_ context.Context, lease *holdfast.Lease) (string, error) {
			fence = lease.Token()
			wantHeld(t, b.Client(t, nil).Mutex("j"))
			return "42\nrows", nil
		})
		if err != nil || !run.Here || run.Result != "42\nrows" || run.Owner != "me" || run.PID != os.Getpid() || run.Fence != fence || run.Try != 1 {
			t.Fatalf("Do: %+v, %v", run, err)
		}
		run.Here = false
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("j")) // which nobody needs any more
		defer backend.Release(t, lease)
		for what, do := range map[string]func() (holdfast.Run, error){
			"Do":    func() (holdfast.Run, error) { return job(t, b).Do(t.Context(), mustNotRun(t)) },
			"TryDo": func() (holdfast.Run, error) { return job(t, b).TryDo(t.Context(), mustNotRun(t)) },
			"Last":  func() (holdfast.Run, error) { return job(t, b).Last(t.Context()) },
		} {
			if again, err := do(); err != nil || again != run {
				t.Errorf("%s: %+v, %v; want %+v", what, again, err, run)
			}
		}
	})
}

// By a window that is over, and by the name of another slot, it is done again.
func TestOnceIsDoneAgainInAnotherWindow(t *testing.T) {
	t.Parallel()
	backend.EachUndisturbed(t, func(t testing.TB, b *backend.Backend) {
		c := b.Client(t, nil)
		short := c.Once("j", holdfast.Every(50*time.Millisecond))
		first, err := short.Do(t.Context(), succeed)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(60 * time.Millisecond)
		second, err := short.Do(t.Context(), succeed)
		if err != nil || !second.Here || second.Fence <= first.Fence || second.Try != 1 {
			t.Errorf("after its window: %+v, %v", second, err)
		}
		if _, err := c.Once("j", holdfast.Every(time.Hour)).Do(t.Context(), mustNotRun(t)); err != nil {
			t.Error(err) // the window is the caller's
		}
		slot := func(name string) *holdfast.Once { return c.Once("j", holdfast.SlotKey(name, time.Hour)) }
		for _, name := range []string{"2026-11-22", "2026-11-23", "{odd} one"} {
			if run, err := slot(name).Do(t.Context(), succeed); err != nil || !run.Here {
				t.Errorf("slot %q: %+v, %v", name, run, err)
			}
			if run, err := slot(name).Do(t.Context(), mustNotRun(t)); err != nil || run.Here {
				t.Errorf("slot %q again: %+v, %v", name, run, err)
			}
		}
	})
}

// What fails, or panics, or loses the lock, does not count.
func TestOnceFailedRunsDoNotCount(t *testing.T) {
	t.Parallel()
	backend.EachUndisturbed(t, func(t testing.TB, b *backend.Backend) {
		if run, err := job(t, b).Do(t.Context(), fail); !errors.Is(err, errBroken) || run != (holdfast.Run{}) {
			t.Errorf("a run that fails: %+v, %v", run, err)
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = job(t, b).Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) { panic("broken") })
		}()
		run, err := job(t, b).Do(t.Context(), func(ctx context.Context, lease *holdfast.Lease) (string, error) {
			b.Redis(t).Set(ctx, "holdfast:{j}", "theirs", time.Minute)
			return "too late", nil
		})
		if !errors.Is(err, holdfast.ErrLost) || run != (holdfast.Run{}) {
			t.Errorf("a run that lost the lock: %+v, %v", run, err)
		}
		b.Redis(t).Del(t.Context(), "holdfast:{j}")
		if run, err := job(t, b).Do(t.Context(), succeed); err != nil || !run.Here || run.Try != 4 {
			t.Errorf("a run after three that failed: %+v, %v", run, err)
		}
	})
}

// What was finished counts, though nobody waits for it any more.
func TestOnceWithAContextThatEnds(t *testing.T) {
	t.Parallel()
	backend.EachUndisturbed(t, func(t testing.TB, b *backend.Backend) {
		ctx, cancel := context.WithCancel(t.Context())
		run, err := job(t, b).Do(ctx, func(context.Context, *holdfast.Lease) (string, error) {
			cancel()
			return "done", nil
		})
		if err != nil || !run.Here {
			t.Errorf("Do: %+v, %v", run, err)
		}
		if run, err := job(t, b).Do(t.Context(), mustNotRun(t)); err != nil || run.Result != "done" {
			t.Errorf("Do after that: %+v, %v", run, err)
		}
	})
}

func TestOnceMaxTries(t *testing.T) {
	t.Parallel()
	backend.EachUndisturbed(t, func(t testing.TB, b *backend.Backend) {
		j := job(t, b, holdfast.MaxTries(3))
		for range 3 {
			if _, err := j.Do(t.Context(), fail); !errors.Is(err, errBroken) {
				t.Fatal(err)
			}
		}
		if _, err := j.Do(t.Context(), mustNotRun(t)); !errors.Is(err, holdfast.ErrTries) {
			t.Errorf("a fourth try of three: %v", err)
		}
		if _, err := j.TryDo(t.Context(), mustNotRun(t)); !errors.Is(err, holdfast.ErrTries) {
			t.Errorf("a fourth try of three: %v", err)
		}
		if run, err := job(t, b, holdfast.MaxTries(4)).Do(t.Context(), succeed); err != nil || run.Try != 4 {
			t.Errorf("a fourth try of four: %+v, %v", run, err)
		}
		// In the next window all tries are there again.
		short := b.Client(t, nil).Once("k", holdfast.Every(20*time.Millisecond), holdfast.MaxTries(1))
		for range 3 {
			if _, err := short.Do(t.Context(), fail); !errors.Is(err, errBroken) {
				t.Error(err)
			}
			time.Sleep(30 * time.Millisecond)
		}
		if _, err := short.Do(t.Context(), succeed); err != nil {
			t.Error(err)
		}
		time.Sleep(30 * time.Millisecond)
		if run, err := short.Do(t.Context(), succeed); err != nil || run.Try != 1 {
			t.Errorf("in the window after a success: %+v, %v", run, err)
		}
	})
}

// Who comes while another runs it waits; for TryDo it is held.
func TestOnceWaitsForWhoRunsIt(t *testing.T) {
	t.Parallel()
	backend.EachUndisturbed(t, func(t testing.TB, b *backend.Backend) {
		for _, outcome := range []error{errBroken, nil} {
			j := job(t, b)
			runs := make(chan holdfast.Run, 1)
			_, err := j.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
				if _, err := job(t, b).TryDo(t.Context(), mustNotRun(t)); !errors.Is(err, holdfast.ErrHeld) {
					t.Errorf("TryDo while another runs it: %v", err)
				}
				go func() {
					run, err := job(t, b).Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
						if outcome == nil {
							t.Error("it runs again")
						}
						return "", errBroken
					})
					if outcome != nil && !errors.Is(err, errBroken) || outcome == nil && err != nil {
						t.Error(err)
					}
					runs <- run
				}()
				backend.Waiters(t, j.Lock(), 1)
				return "first", outcome
			})
			if !errors.Is(err, outcome) {
				t.Errorf("Do: %v; want %v", err, outcome)
			}
			if run := <-runs; run.Here || outcome == nil && run.Result != "first" {
				t.Errorf("who waited has %+v", run)
			}
		}
	})
}

// Many processes, of which runs fail at random: exactly one run is completed in a window.
func TestOnceOfMany(t *testing.T) {
	t.Parallel()
	backend.EachUndisturbed(t, func(t testing.TB, b *backend.Backend) {
		var clients []*holdfast.Client
		for range 4 {
			clients = append(clients, b.Client(t, nil))
		}
		round := 0
		machine.Undisturbed(t, func() error {
			for range 5 {
				round++
				if err := runByMany(t, clients, holdfast.SlotKey(fmt.Sprint("round ", round), time.Hour)); err != nil {
					return fmt.Errorf("round %d: %w", round, err)
				}
			}
			return nil
		})
	})
}

// runByMany has three goroutines of each client run the job in that window, and returns what must not be
// unless a lease was lost in the middle of its use.
func runByMany(t testing.TB, clients []*holdfast.Client, window holdfast.Window) error {
	var running, completed atomic.Int32
	var wg sync.WaitGroup
	wrong := make(chan error, 6*len(clients)+1)
	for _, c := range clients {
		j := c.Once("j", window)
		for range 3 {
			wg.Go(func() {
				run, err := j.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
					if n := running.Add(1); n != 1 {
						wrong <- fmt.Errorf("%d run it at a time", n)
					}
					defer running.Add(-1)
					if rand.IntN(3) > 0 {
						return "", errBroken
					}
					return "", nil
				})
				if run.Here {
					completed.Add(1)
				}
				if err != nil && !errors.Is(err, errBroken) {
					wrong <- err
				}
			})
		}
	}
	wg.Wait()
	want := int32(1)
	if _, err := clients[0].Once("j", window).Last(t.Context()); errors.Is(err, holdfast.ErrNotDone) {
		want = 0 // all have failed
	}
	switch n := completed.Load(); {
	case n > 1:
		t.Errorf("completed %d times", n)
	case n != want:
		wrong <- fmt.Errorf("completed %d times, want %d", n, want)
	}
	close(wrong)
	var all []error
	for err := range wrong {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// A result that is too long costs the result, not the run.
func TestOnceWithALongResult(t *testing.T) {
	t.Parallel()
	backend.EachUndisturbed(t, func(t testing.TB, b *backend.Backend) {
		j := job(t, b)
		run, err := j.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) { return strings.Repeat("x", 64<<10+1), nil })
		if !errors.Is(err, holdfast.ErrInvalid) || !run.Here || run.Result != "" {
			t.Errorf("Do: %.200v, %v", run, err)
		}
		if last, err := j.Last(t.Context()); err != nil || last.Fence != run.Fence {
			t.Errorf("Last: %+v, %v", last, err)
		}
	})
}

// What is known of a job's runs is nobody's lock, whatever its windows and locks are called.
func TestRecordsAreBesideLocksOfAnyName(t *testing.T) {
	t.Parallel()
	backend.EachUndisturbed(t, func(t testing.TB, b *backend.Backend) {
		c := b.Client(t, nil)
		lock := c.Mutex("a}:once:x{b")
		lease := backend.Acquire(t, lock)
		job := c.Once("a", holdfast.SlotKey("x{b}", time.Minute))
		run, err := job.Do(t.Context(), succeed)
		if err != nil || !run.Here {
			t.Errorf("a job beside a lock that is called like its record: %+v, %v", run, err)
		}
		if _, err := job.Do(t.Context(), mustNotRun(t)); err != nil {
			t.Errorf("the job again: %v", err)
		}
		wantHeld(t, c.Mutex("a}:once:x{b"))
		backend.Release(t, lease)
		backend.Release(t, backend.Acquire(t, lock))
		if last, err := job.Last(t.Context()); err != nil || last.Fence != run.Fence {
			t.Errorf("the run after that: %+v, %v", last, err)
		}
	})
}

func TestOnceRefuses(t *testing.T) {
	t.Parallel()
	c := unreachable(t)
	hour := holdfast.Every(time.Hour)
	for what, j := range map[string]*holdfast.Once{
		"no name":         c.Once("", hour),
		"no window":       c.Once("j", holdfast.Window{}),
		"a window of 0":   c.Once("j", holdfast.Every(0)),
		"a negative one":  c.Once("j", holdfast.Every(-time.Hour)),
		"a century":       c.Once("j", holdfast.Every(100*365*24*time.Hour)),
		"no slot":         c.Once("j", holdfast.SlotKey("", time.Hour)),
		"a line":          c.Once("j", holdfast.SlotKey("a\nb", time.Hour)),
		"a long slot":     c.Once("j", holdfast.SlotKey(strings.Repeat("x", 513), time.Hour)),
		"a slot for 0":    c.Once("j", holdfast.SlotKey("a", 0)),
		"no tries":        c.Once("j", hour, holdfast.MaxTries(0)),
		"a reentrant one": c.Once("j", hour, holdfast.Reentrant(true)),
		"Redisson's":      c.Once("j", hour, holdfast.Redisson("j")),
	} {
		_, err := j.Do(t.Context(), mustNotRun(t))
		_, err2 := j.TryDo(t.Context(), mustNotRun(t))
		_, err3 := j.Last(t.Context())
		for _, err := range []error{err, err2, err3} {
			if !errors.Is(err, holdfast.ErrInvalid) || len(err.Error()) > 1500 {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if err := c.Once("j", holdfast.Every(0)).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "a window of 0s") {
		t.Errorf("the error of a window of 0 does not say so: %v", err)
	}
	if _, err := c.Mutex("j", holdfast.MaxTries(3)).TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("a mutex with MaxTries: %v", err)
	}
}

// Step by step, for those who hold the lock already.
func TestOnceStepByStep(t *testing.T) {
	t.Parallel()
	backend.EachUndisturbed(t, func(t testing.TB, b *backend.Backend) {
		c := b.Client(t, nil)
		j := c.Once("j", holdfast.Every(time.Hour), holdfast.MaxTries(1))
		lease := backend.Acquire(t, j.Lock())
		for range 2 { // counts once
			if err := j.Begin(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
		}
		first, err := j.Complete(t.Context(), lease, "one")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := j.Complete(t.Context(), lease, "one"); err != nil || again != first {
			t.Errorf("completed again: %+v, %v; want %+v", again, err, first)
		}
		if err := j.Begin(t.Context(), lease); !errors.Is(err, holdfast.ErrDone) {
			t.Errorf("Begin of what this lease has completed: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		if err := c.Once("j", holdfast.Every(time.Millisecond)).Begin(t.Context(), lease); !errors.Is(err, holdfast.ErrInvalid) || lease.Err() != nil {
			t.Errorf("Begin in another window with the same lease: %v; the lease: %v", err, lease.Err())
		}
		backend.Release(t, lease)
		if _, err := j.Complete(t.Context(), lease, "late"); !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("Complete after the release: %v", err)
		}
		lease = backend.Acquire(t, j.Lock())
		var done *holdfast.DoneError
		if err := j.Begin(t.Context(), lease); !errors.As(err, &done) || !errors.Is(err, holdfast.ErrDone) || done.Run.Result != "one" {
			t.Errorf("Begin of what is done: %v", err)
		}
		backend.Release(t, lease)
		for what, l := range map[string]*holdfast.Lock{
			"another name": c.Mutex("k"), "a mutex": c.Mutex("j"), "another client": b.Client(t, nil).Mutex("j"), "several": c.Multi([]string{"j", "k"}),
		} {
			lease := backend.Acquire(t, l)
			if err := j.Begin(t.Context(), lease); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("Begin with a lease of %s: %v", what, err)
			}
			if _, err := j.Complete(t.Context(), lease, ""); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("Complete with a lease of %s: %v", what, err)
			}
			backend.Release(t, lease)
		}
	})
}
