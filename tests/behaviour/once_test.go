package behaviour

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

var errBroken = errors.New("broken")

// mustNotRun is a run that must not happen.
func mustNotRun(t testing.TB) func(context.Context, *holdfast.Lease) (string, error) {
	return func(context.Context, *holdfast.Lease) (string, error) {
		t.Error("it runs again")
		return "again", nil
	}
}

// A job's record is never a lock, whatever its windows and the locks are named.
func TestRecordsAreBesideLocksOfAnyName(t *testing.T) {
	each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		lock := c.Mutex("a}:once:x{b")
		lease := backend.Acquire(t, lock)
		job := once.New(c, "a", once.Slot("x{b}", time.Minute))
		run, err := job.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) { return "fine", nil })
		if err != nil || !run.Here {
			t.Errorf("a job beside a lock that is called like its record: %+v, %v", run, err)
		}
		expect.Err(t, "the job again", expect.ErrOf(job.Do(t.Context(), mustNotRun(t))), nil)
		wantHeld(t, c.Mutex("a}:once:x{b"))
		backend.Release(t, lease)
		backend.Release(t, backend.Acquire(t, lock))
		if last, err := job.Last(t.Context()); err != nil || last.Fence != run.Fence {
			t.Errorf("the run after that: %+v, %v", last, err)
		}
	})
}

// Many processes run a job that fails at random: one run at a time, and at most one is completed in a window.
func TestOnceOfMany(t *testing.T) {
	each(t, func(t *testing.T, b *backend.Backend) {
		clients := []*holdfast.Client{b.Client(t, nil), b.Client(t, nil), b.Client(t, nil), b.Client(t, nil)}
		for round := range 5 {
			var running, completed, tries atomic.Int32
			var wg sync.WaitGroup
			window := once.Slot(fmt.Sprint("round ", round), time.Hour)
			for n := range 12 {
				j := once.New(clients[n%4], "j", window)
				wg.Go(func() {
					run, err := j.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
						expect.Equal(t, "runs at a time", running.Add(1), 1)
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
						t.Errorf("Do: %v", err)
					}
				})
			}
			wg.Wait()
			_, err := once.New(clients[0], "j", window).Last(t.Context())
			if n := completed.Load(); n > 1 || (n == 0) != errors.Is(err, once.ErrNone) {
				t.Errorf("round %d: completed %d times; Last: %v", round, n, err)
			}
		}
	})
}
