package holdfastgocron_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/integrations/holdfastgocron"
	"github.com/holdfast-go/holdfast/once"
)

// period is that of the jobs.
const period = 10 * time.Minute

// window is that of their Once.
var window = once.Every(period / 2)

// journal notes who ran a job, and when.
type journal struct {
	mu   sync.Mutex
	runs []string
	at   []time.Time
	errs []error // of Lock
}

func (j *journal) note(who string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.runs, j.at = append(j.runs, who), append(j.at, time.Now())
}

func (j *journal) noteError(_ uuid.UUID, _ string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.errs = append(j.errs, err)
}

func (j *journal) count(who string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, by := range j.runs {
		if who == "" || who == by {
			n++
		}
	}
	return n
}

// schedule starts a scheduler with a job that takes a while.
func schedule(t *testing.T, who string, j *journal, takes time.Duration, o gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.NewJob(gocron.DurationJob(period), gocron.NewTask(func() {
		j.note(who)
		time.Sleep(takes)
	}), gocron.WithName("report"), gocron.WithEventListeners(gocron.AfterLockError(j.noteError)))
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	return s
}

func shutDown(t *testing.T, s gocron.Scheduler) {
	t.Helper()
	if err := s.Shutdown(); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

func locker(c *holdfasttest.Client) gocron.SchedulerOption {
	return gocron.WithDistributedLocker(holdfastgocron.NewLocker(c.Client, window))
}

// One of the schedulers runs the job each time, also where clocks differ by more than the job takes, or it takes longer than a
// lease.
func TestEachRunIsDoneOnce(t *testing.T) {
	for _, takes := range []time.Duration{time.Second, 4 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var j journal
			srv := holdfasttest.Run(t)
			one := schedule(t, "one", &j, takes, locker(srv.NewClient(t, nil)))
			time.Sleep(2 * time.Minute) // its clock is ahead
			other := schedule(t, "other", &j, takes, locker(srv.NewClient(t, nil)))
			time.Sleep(10*period + period/2)
			shutDown(t, one)
			shutDown(t, other)
			if n := j.count(""); n != 10 {
				t.Errorf("with jobs of %s: %d runs in 10 periods: %q at %s", takes, n, j.runs, j.at)
			}
			if len(j.errs) != 10 {
				t.Errorf("the late scheduler has skipped %d runs: %v", len(j.errs), j.errs)
			}
			for _, err := range j.errs {
				if !errors.Is(err, holdfastgocron.ErrDone) && !errors.Is(err, holdfast.ErrHeld) {
					t.Errorf("a run was skipped with %v", err)
				}
			}
		})
	}
}

// If a scheduler loses the lock in a run, that does not count: the next scheduler runs the job.
func TestARunThatLostItsLockDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := holdfasttest.New(t)
		l := holdfastgocron.NewLocker(c.Client, window)
		lock, err := l.Lock(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Lock(t.Context(), "report"); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("Lock during the run: %v", err)
		}
		c.Expire("report")
		if err := lock.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		if lock, err = l.Lock(t.Context(), "report"); err != nil {
			t.Fatalf("Lock after the loss: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel() // as is that of a job that was removed
		for range 2 {
			if err := lock.Unlock(ended); err != nil {
				t.Errorf("Unlock: %v", err)
			}
		}
		if _, err := l.Lock(t.Context(), "report"); !errors.Is(err, holdfastgocron.ErrDone) {
			t.Errorf("Lock after the run: %v", err)
		}
	})
}

// Without a server no job runs, and none hangs.
func TestWithoutAServerRunsAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		c := holdfasttest.New(t)
		s := schedule(t, "one", &j, time.Second, locker(c))
		heal := c.Partition()
		time.Sleep(2*period + period/2)
		heal()
		time.Sleep(2 * period)
		shutDown(t, s)
		if n := j.count(""); n != 2 || len(j.errs) != 2 || !errors.Is(j.errs[0], holdfast.ErrUnavailable) {
			t.Errorf("%d runs; 2 were skipped for %v", n, j.errs)
		}
	})
}

// The leader runs all jobs. When it cannot renew its lease, or resigns, the other does.
func TestTheLeaderRunsAllJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		srv := holdfasttest.Run(t)
		start := func(who string) (*holdfasttest.Client, *holdfastgocron.Elector, gocron.Scheduler) {
			c := srv.NewClient(t, nil)
			elector := holdfastgocron.NewElector(election.New(c.Mutex("scheduler")))
			synctest.Wait()
			return c, elector, schedule(t, who, &j, time.Second, gocron.WithDistributedElector(elector))
		}
		one, electorOne, s1 := start("one")
		_, electorOther, s2 := start("other")
		check := func(what string, ones, others int) {
			t.Helper()
			time.Sleep(3 * period)
			if a, b := j.count("one"), j.count("other"); a != ones || b != others {
				t.Errorf("%s: one has run the job %d times, the other %d times; want %d and %d", what, a, b, ones, others)
			}
		}
		time.Sleep(period / 10)
		check("at first", 3, 0)
		heal := one.Partition()
		check("cut off", 3, 3)
		if err := electorOne.IsLeader(t.Context()); !errors.Is(err, holdfastgocron.ErrNotLeader) {
			t.Errorf("IsLeader of one that is cut off: %v", err)
		}
		heal()
		electorOther.Close()
		check("the other has resigned", 6, 3)
		if err := electorOther.IsLeader(t.Context()); !errors.Is(err, holdfastgocron.ErrNotLeader) || !errors.Is(err, context.Canceled) {
			t.Errorf("IsLeader of one that has resigned: %v", err)
		}
		electorOne.Close()
		electorOne.Close()
		shutDown(t, s1)
		shutDown(t, s2)
	})
}

// A leader that sleeps past its term knows so when it wakes up.
func TestALeaderThatWasPausedLeadsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := holdfasttest.New(t)
		e := holdfastgocron.NewElector(election.New(c.Mutex("scheduler")))
		defer e.Close()
		synctest.Wait()
		if err := e.IsLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		resume := c.Pause()
		time.Sleep(time.Minute)
		if err := e.IsLeader(t.Context()); !errors.Is(err, holdfastgocron.ErrNotLeader) || !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("IsLeader: %v", err)
		}
		resume()
		time.Sleep(time.Minute)
		if err := e.IsLeader(t.Context()); err != nil {
			t.Errorf("it does not lead again: %v", err)
		}
	})
}
