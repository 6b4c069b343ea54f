package behaviour

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// job returns a job that is done once an hour, with a client of its own.
func job(t testing.TB, b *backend.Backend, opts ...holdfast.OnceOption) *holdfast.Once {
	return b.Client(t, nil).Once("j", holdfast.Every(time.Hour), opts...)
}

var errBroken = errors.New("broken")

// succeed and fail are runs.
func succeed(context.Context, *holdfast.Lease) (string, error) { return "fine", nil }
func fail(context.Context, *holdfast.Lease) (string, error)    { return "", errBroken }

// mustNotRun is a run that must not happen.
func mustNotRun(t testing.TB) func(context.Context, *holdfast.Lease) (string, error) {
	return func(context.Context, *holdfast.Lease) (string, error) {
		t.Error("it runs again")
		return "again", nil
	}
}

func TestOnceIsDoneOnce(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		j := job(t, b, holdfast.Owner("me"))
		if _, err := j.Last(t.Context()); !errors.Is(err, holdfast.ErrOnceNone) {
			t.Errorf("Last before any run: %v", err)
		}
		var fence uint64
		run, err := j.Do(t.Context(), func(_ context.Context, lease *holdfast.Lease) (string, error) {
			fence = lease.Fence()
			wantHeld(t, b.Client(t, nil).Mutex("j"))
			return "42\nrows", nil
		})
		if err != nil || !run.Here || run.Result != "42\nrows" || run.Owner != "me" || run.PID != os.Getpid() || run.Fence != fence || run.Try != 1 {
			t.Fatalf("Do: %+v, %v", run, err)
		}
		run.Here = false
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("j")) // no caller needs it any more
		defer backend.Release(t, lease)
		for what, do := range map[string]func() (holdfast.Completion, error){
			"Do":    func() (holdfast.Completion, error) { return job(t, b).Do(t.Context(), mustNotRun(t)) },
			"TryDo": func() (holdfast.Completion, error) { return job(t, b).TryDo(t.Context(), mustNotRun(t)) },
			"Last":  func() (holdfast.Completion, error) { return job(t, b).Last(t.Context()) },
		} {
			if again, err := do(); err != nil || again != run {
				t.Errorf("%s: %+v, %v; want %+v", what, again, err, run)
			}
		}
	})
}

// In another window, or in a slot with another name, the job is done again.
func TestOnceIsDoneAgainInAnotherWindow(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
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
			t.Error(err) // each caller's own window decides
		}
		slot := func(name string) *holdfast.Once { return c.Once("j", holdfast.Slot(name, time.Hour)) }
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

// A run that fails, panics or loses the lock does not count.
func TestOnceFailedRunsDoNotCount(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		if run, err := job(t, b).Do(t.Context(), fail); !errors.Is(err, errBroken) || run != (holdfast.Completion{}) {
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
		if !errors.Is(err, holdfast.ErrLost) || run != (holdfast.Completion{}) {
			t.Errorf("a run that lost the lock: %+v, %v", run, err)
		}
		b.Redis(t).Del(t.Context(), "holdfast:{j}")
		if run, err := job(t, b).Do(t.Context(), succeed); err != nil || !run.Here || run.Try != 4 {
			t.Errorf("a run after three that failed: %+v, %v", run, err)
		}
	})
}

// A completed run counts, even if nobody waits for it any more.
func TestOnceWithAContextThatEnds(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
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
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		j := job(t, b, holdfast.MaxTries(3))
		for range 3 {
			if _, err := j.Do(t.Context(), fail); !errors.Is(err, errBroken) {
				t.Fatal(err)
			}
		}
		if _, err := j.Do(t.Context(), mustNotRun(t)); !errors.Is(err, holdfast.ErrOnceExhausted) {
			t.Errorf("a fourth try of three: %v", err)
		}
		if _, err := j.TryDo(t.Context(), mustNotRun(t)); !errors.Is(err, holdfast.ErrOnceExhausted) {
			t.Errorf("a fourth try of three: %v", err)
		}
		if run, err := job(t, b, holdfast.MaxTries(4)).Do(t.Context(), succeed); err != nil || run.Try != 4 {
			t.Errorf("a fourth try of four: %+v, %v", run, err)
		}
		// The next window has all tries again.
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

// A caller that comes while another runs the job waits; TryDo returns ErrHeld.
func TestOnceWaitsForWhoRunsIt(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		for _, outcome := range []error{errBroken, nil} {
			j := job(t, b)
			runs := make(chan holdfast.Completion, 1)
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
				backend.Eventually(t, "another waits for the job", func() bool {
					waiting, err := backend.Waiting(t.Context(), j)
					return err == nil && waiting == 1
				})
				return "first", outcome
			})
			if !errors.Is(err, outcome) {
				t.Errorf("Do: %v; want %v", err, outcome)
			}
			if run := <-runs; run.Here || outcome == nil && run.Result != "first" {
				t.Errorf("the caller that waited has %+v", run)
			}
		}
	})
}

// Many processes run a job that fails at random: exactly one run is completed in a window.
func TestOnceOfMany(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		var clients []*holdfast.Client
		for range 4 {
			clients = append(clients, b.Client(t, nil))
		}
		for round := range 5 {
			if err := runByMany(t, clients, holdfast.Slot(fmt.Sprint("round ", round), time.Hour)); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		}
	})
}

// runByMany makes three goroutines of each client run the job in that window. It returns the violations, unless
// a lease was lost while it was in use.
func runByMany(t testing.TB, clients []*holdfast.Client, window holdfast.Window) error {
	var running, completed atomic.Int32
	var tries atomic.Uint64
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
					if random(int(tries.Add(1))).IntN(3) > 0 {
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
	if _, err := clients[0].Once("j", window).Last(t.Context()); errors.Is(err, holdfast.ErrOnceNone) {
		want = 0 // all tries have failed
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

// If a result is too long, the result is lost, not the run.
func TestOnceWithALongResult(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		j := job(t, b)
		run, err := j.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) { return strings.Repeat("x", 64<<10+1), nil })
		if !errors.Is(err, holdfast.ErrOnceResult) || !run.Here || run.Result != "" {
			t.Errorf("Do: %.200v, %v", run, err)
		}
		if last, err := j.Last(t.Context()); err != nil || last.Fence != run.Fence {
			t.Errorf("Last: %+v, %v", last, err)
		}
	})
}

// A job's record is never a lock, whatever its windows and the locks are named.
func TestRecordsAreBesideLocksOfAnyName(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		lock := c.Mutex("a}:once:x{b")
		lease := backend.Acquire(t, lock)
		job := c.Once("a", holdfast.Slot("x{b}", time.Minute))
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
		"no slot":         c.Once("j", holdfast.Slot("", time.Hour)),
		"a line":          c.Once("j", holdfast.Slot("a\nb", time.Hour)),
		"a long slot":     c.Once("j", holdfast.Slot(strings.Repeat("x", 513), time.Hour)),
		"a slot for 0":    c.Once("j", holdfast.Slot("a", 0)),
		"no tries":        c.Once("j", hour, holdfast.MaxTries(0)),
		"a negative Wait": c.Once("j", hour, holdfast.Wait(-1)),
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
	if _, err := c.Once("j", holdfast.Every(0)).Last(t.Context()); err == nil || !strings.Contains(err.Error(), "a window of 0s") {
		t.Errorf("the error of a window of 0 does not say so: %v", err)
	}
}

// A run whose lease ended before it could be recorded does not count, however it ended.
func TestARunThatGaveItsLeaseUpDoesNotCount(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		j := job(t, b)
		for end, want := range map[string]error{"release": holdfast.ErrReleased, "loss": holdfast.ErrLost} {
			run, err := j.Do(t.Context(), func(ctx context.Context, lease *holdfast.Lease) (string, error) {
				if end == "release" {
					return "late", lease.Release(ctx)
				}
				return "late", b.Redis(t).Del(ctx, "holdfast:{j}").Err()
			})
			if !errors.Is(err, want) || run.Here {
				t.Errorf("Do, with a %s of the lease: %+v, %v", end, run, err)
			}
			if done, err := backend.IsDone(t.Context(), j); done || err != nil {
				t.Errorf("the job is done after a %s of the lease: %v, %v", end, done, err)
			}
		}
		if run, err := j.Do(t.Context(), succeed); err != nil || !run.Here || !run.Current {
			t.Errorf("Do after that: %+v, %v", run, err)
		}
	})
}
