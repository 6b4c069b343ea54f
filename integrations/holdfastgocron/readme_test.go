package holdfastgocron_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/integrations/holdfastgocron"
	"github.com/holdfast-go/holdfast/once"
)

// runs reports how often the scheduler runs an hourly job in three hours.
func runs(t *testing.T, s gocron.Scheduler, err error) (n int) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	job := gocron.NewTask(func() { n++ })
	if _, err := s.NewJob(gocron.DurationJob(time.Hour), job, gocron.WithName("report")); err != nil {
		t.Fatal(err)
	}
	s.Start()
	time.Sleep(3*time.Hour + 30*time.Minute)
	shutDown(t, s)
	return n
}

// The lines of README.md work.
func TestREADME(t *testing.T) {
	t.Run("locker", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := holdfasttest.New(t).Client

			locker := holdfastgocron.NewLocker(locks, once.Every(30*time.Minute)) // for a job that is due every hour
			s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))

			if n := runs(t, s, err); n != 3 {
				t.Errorf("the job ran %d times in three hours", n)
			}
		})
	})
	t.Run("elector", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := holdfasttest.New(t).Client

			elector := holdfastgocron.NewElector(election.New(locks.Mutex("scheduler")))
			defer elector.Close()
			s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))

			if n := runs(t, s, err); n != 3 {
				t.Errorf("the job ran %d times in three hours", n)
			}
		})
	})
}
