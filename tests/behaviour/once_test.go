package behaviour

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// mustNotRun is a run that must not happen.
func mustNotRun(t testing.TB) func(context.Context, *holdfast.Lease) (string, error) {
	return func(context.Context, *holdfast.Lease) (string, error) {
		t.Error("it runs again")
		return "again", nil
	}
}

// A job's record is never a lock, whatever its windows and the locks are named.
func TestRecordsAreBesideLocksOfAnyName(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
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
