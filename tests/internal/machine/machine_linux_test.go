package machine

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// standStill makes this process stand still for half a second.
func standStill(t *testing.T) {
	t.Helper()
	// The first signal may come before the process has stopped.
	waker := exec.Command("sh", "-c", "for n in 1 2 3 4; do sleep 0.5; kill -CONT "+strconv.Itoa(os.Getpid())+"; done")
	expect.OK(t, waker.Start())
	expect.OK(t, syscall.Kill(os.Getpid(), syscall.SIGSTOP))
	_ = waker.Wait()
}

func TestOnlyAProcessThatStoodStillIsExcused(t *testing.T) {
	nightly(t)
	began := time.Now()
	attempts := 0
	Undisturbed(t, func() error {
		if attempts++; attempts > 1 {
			return nil
		}
		standStill(t)
		return errors.New("too late")
	})
	expect.Equal(t, "attempts", attempts, 2)
	expect.Equal(t, "stalled", Stalled(began), true)
	expect.Contains(t, "the report does not say that it stood still", Report(began), "stood still for ")
	for range 5 { // a stall may happen
		if !Stalled(time.Now()) {
			return
		}
	}
	t.Error("the process is seen to stand still, and did not")
}

// judged is a test whose verdict another test looks at.
type judged struct {
	testing.TB
	fails bool
}

func (j *judged) Helper()               {}
func (j *judged) Logf(string, ...any)   {}
func (j *judged) Fatalf(string, ...any) { j.fails = true; runtime.Goexit() }

func TestUnhurriedRepeatsOnlyWhatWasHeldUp(t *testing.T) {
	nightly(t)
	for _, c := range []struct {
		what     string
		unit     time.Duration
		f        func(unit time.Duration) error
		fails    bool
		attempts int
	}{
		{"held up once", time.Second, func(unit time.Duration) error {
			if unit > time.Second {
				return nil
			}
			standStill(t)
			return errors.New("too late")
		}, false, 2},
		{"not held up", time.Hour, func(time.Duration) error { return errors.New("wrong on any machine") }, true, 1},
		{"always held up", time.Microsecond, func(time.Duration) error {
			standStill(t)
			return errors.New("late at any length")
		}, true, 6},
	} {
		var units []time.Duration
		verdict, over := &judged{}, make(chan struct{})
		go func() {
			defer close(over)
			Unhurried(verdict, c.unit, func(unit time.Duration) error {
				units = append(units, unit)
				return c.f(unit)
			})
		}()
		<-over
		if verdict.fails != c.fails || len(units) != c.attempts || units[len(units)-1] != c.unit<<(c.attempts-1) {
			t.Errorf("%s: fails %v, with units of %v", c.what, verdict.fails, units)
		}
	}
}

func TestVirtualTimeExcusesNothing(t *testing.T) {
	standStill(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		time.Sleep(time.Hour)
		if Stalled(began) || HeldUp(began) != 0 {
			t.Error("a delay of the real machine is seen in virtual time")
		}
	})
}

// An attempt has a context and cleanups of its own. FailNow ends only the attempt, also if a goroutine that it
// started calls it.
func TestAnAttemptIsATestOfItsOwn(t *testing.T) {
	var order []string
	err := try(t, 2, func(t testing.TB) {
		t.Cleanup(func() { order = append(order, "first") })
		t.Cleanup(func() {
			order = append(order, "last")
			expect.Fails(t, "the context after the attempt", t.Context().Err())
		})
		done, fatal := make(chan struct{}), t.Fatalf
		go func() {
			defer close(done)
			fatal("from %s", "a goroutine")
		}()
		<-done
		t.Fatal("at the end")
		order = append(order, "never")
	})
	if err == nil || err.Error() != "from a goroutine\nat the end" {
		t.Errorf("it fails with %q", err)
	}
	expect.Same(t, "the cleanups ran as", order, []string{"last", "first"})
	if err := try(t, 1, func(t testing.TB) { t.Log(t.Name()) }); err != nil || t.Failed() {
		t.Errorf("one that does not fail: %v", err)
	}
}
