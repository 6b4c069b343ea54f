package behaviour

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
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

// election returns the test's election, with a client of its own.
func theElection(t testing.TB, b *backend.Backend, opts ...holdfast.MutexOption) *election.Election {
	return election.New(b.Client(t, nil).Mutex("e", opts...))
}

// heard waits until somebody has subscribed to the announcements of leaders.
func heard(t testing.TB, b *backend.Backend) {
	t.Helper()
	rdb := b.Redis(t)
	backend.Eventually(t, "the watcher is subscribed", func() bool {
		n, err := rdb.PubSubNumSub(t.Context(), "holdfast:c:w:holdfast:{e}").Result()
		return err == nil && n["holdfast:c:w:holdfast:{e}"] > 0
	})
}

func TestWatchSeesEveryChange(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		next := backend.Watch(t, theElection(t, b))
		see := func(want string) {
			t.Helper()
			expect.Equal(t, "the leader", next(), want)
		}
		see("")
		heard(t, b)
		time.Sleep(20 * time.Millisecond) // for the look after the subscription
		one := backend.Campaign(t.Context(), theElection(t, b, holdfast.Identity("one"), holdfast.TTL(time.Minute)))
		one.Elected(t)
		see("one")
		two := backend.Campaign(t.Context(), theElection(t, b, holdfast.Identity("two"), holdfast.TTL(time.Minute)))
		backend.Waiters(t, b.Client(t, nil).Mutex("e"), 1)
		one.Answer <- nil
		two.Elected(t)
		see("two")
		two.Answer <- nil
		see("")
		// A leader that crashes tells nobody.
		backend.Acquire(t, b.Client(t, nil).Mutex("e", holdfast.Identity("three"), holdfast.NoRenew(), holdfast.TTL(6*time.Second)))
		one = backend.Campaign(t.Context(), theElection(t, b, holdfast.Identity("four")))
		one.Elected(t)
		for got := next(); got != "four"; got = next() { // it may have seen the third
			if got == "one" || got == "two" {
				t.Fatalf("it sees %q lead again", got)
			}
		}
		one.Answer <- nil
		see("")
	})
}
