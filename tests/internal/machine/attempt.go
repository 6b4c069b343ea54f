package machine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// UndisturbedTest is Undisturbed for a whole test, with timeouts of a second or more, such as the claim of a
// lock that is handed over.
func UndisturbedTest(t *testing.T, f func(t testing.TB)) {
	t.Helper()
	n := 0
	Undisturbed(t, func() error { n++; return try(t, n, f) })
}

// UnhurriedTest is Unhurried for a whole test, with deadlines that are multiples of unit.
func UnhurriedTest(t *testing.T, unit time.Duration, f func(t testing.TB, unit time.Duration)) {
	t.Helper()
	n := 0
	Unhurried(t, unit, func(unit time.Duration) error {
		n++
		return try(t, n, func(t testing.TB) { f(t, unit) })
	})
}

// attempt is a test that may fail and be repeated. It has a name, a context and cleanups of its own.
type attempt struct {
	testing.TB
	name string
	ctx  context.Context // until the cleanups

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// try makes the nth attempt, and returns how it failed.
func try(t *testing.T, n int, f func(t testing.TB)) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := &attempt{TB: t, name: t.Name(), ctx: ctx}
	if n > 1 {
		a.name += fmt.Sprint("-", n)
	}
	skipped := a.do(func() { f(a) })
	cancel()
	for {
		a.mu.Lock()
		left := len(a.cleanups)
		if left == 0 {
			a.mu.Unlock()
			break
		}
		last := a.cleanups[left-1]
		a.cleanups = a.cleanups[:left-1]
		a.mu.Unlock()
		a.do(last)
	}
	if skipped {
		runtime.Goexit()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.failures) == 0 {
		return nil
	}
	return errors.New(strings.Join(a.failures, "\n"))
}

// do calls f on a goroutine, which FailNow and Skip end, and waits for it. It reports whether f skipped the
// test.
func (a *attempt) do(f func()) (skipped bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	return a.TB.Skipped()
}

func (a *attempt) fail(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = append(a.failures, strings.TrimSpace(text))
}

func (a *attempt) Name() string              { return a.name }
func (a *attempt) Context() context.Context  { return a.ctx }
func (a *attempt) Fail()                     { a.fail("failed") }
func (a *attempt) FailNow()                  { a.Fail(); runtime.Goexit() }
func (a *attempt) Error(args ...any)         { a.fail(fmt.Sprintln(args...)) }
func (a *attempt) Fatal(args ...any)         { a.Error(args...); runtime.Goexit() }
func (a *attempt) Errorf(f string, v ...any) { a.fail(fmt.Sprintf(f, v...)) }
func (a *attempt) Fatalf(f string, v ...any) { a.Errorf(f, v...); runtime.Goexit() }

func (a *attempt) Cleanup(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cleanups = append(a.cleanups, f)
}

func (a *attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.failures) > 0 || a.TB.Failed()
}
