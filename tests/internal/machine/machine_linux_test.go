package machine

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// standStill makes this process stand still for half a second.
func standStill(t *testing.T) {
	t.Helper()
	// The first signal may come before the process has stopped.
	waker := exec.Command("sh", "-c", "for n in 1 2 3 4; do sleep 0.5; kill -CONT "+strconv.Itoa(os.Getpid())+"; done")
	if err := waker.Start(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
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
	if attempts != 2 {
		t.Errorf("%d attempts", attempts)
	}
	if !Stalled(began) {
		t.Error("the process stood still, and nobody saw it")
	}
	if report := Report(began); !strings.Contains(report, "stood still for ") {
		t.Errorf("the report does not say that it stood still: %s", report)
	}
	for range 5 { // a stall may happen
		if !Stalled(time.Now()) {
			return
		}
	}
	t.Error("the process is seen to stand still, and did not")
}

// failing is a test that fails and continues.
type failing struct {
	testing.TB
	fatal  bool
	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }

func (f *failing) Helper()               {}
func (f *failing) Logf(string, ...any)   {}
func (f *failing) Fatalf(string, ...any) { f.fatal = true; panic(f) }

// judged reports whether Unhurried fails a test, and the units that it tried.
func judged(unit time.Duration, f func(unit time.Duration) error) (fails bool, units []time.Duration) {
	tb := &failing{}
	defer func() {
		if p := recover(); p != nil && p != any(tb) {
			panic(p)
		}
		fails = tb.fatal
	}()
	Unhurried(tb, unit, func(unit time.Duration) error {
		units = append(units, unit)
		return f(unit)
	})
	return
}

func TestUnhurriedRepeatsOnlyWhatWasHeldUp(t *testing.T) {
	nightly(t)
	fails, units := judged(time.Second, func(unit time.Duration) error {
		if unit == time.Second {
			standStill(t)
			return errors.New("too late")
		}
		return nil
	})
	if fails || len(units) != 2 || units[1] != 2*time.Second {
		t.Errorf("held up once: fails %v, with units of %v", fails, units)
	}
	fails, units = judged(time.Hour, func(time.Duration) error { return errors.New("wrong on any machine") })
	if !fails || len(units) != 1 {
		t.Errorf("not held up: fails %v, with units of %v", fails, units)
	}
	fails, units = judged(time.Microsecond, func(unit time.Duration) error {
		standStill(t)
		return errors.New("late at any length")
	})
	if !fails || len(units) != 6 {
		t.Errorf("always held up: fails %v, with units of %v", fails, units)
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
