package command

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/machine"
)

// hang is when a test gives up waiting for what must happen. Nothing that is right takes as
// long, and what is wrong takes longer.
const hang = time.Minute

// long marks a test that takes long, or loads the machine.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: part of make test-all")
	}
}

// undisturbed is a test of things with timeouts of a second or more, such as the claim of a
// lock that is handed over: machine.Undisturbed.
func undisturbed(t *testing.T, f func(t testing.TB)) {
	t.Helper()
	n := 0
	machine.Undisturbed(t, func() error { n++; return try(t, n, f) })
}

// unhurried is a test of deadlines, which are multiples of unit: machine.Unhurried.
func unhurried(t *testing.T, unit time.Duration, f func(t testing.TB, unit time.Duration)) {
	t.Helper()
	n := 0
	machine.Unhurried(t, unit, func(unit time.Duration) error {
		n++
		return try(t, n, func(t testing.TB) { f(t, unit) })
	})
}

// attempt is a test that may fail and be made again. It has a name and cleanups of its own.
type attempt struct {
	testing.TB
	name string

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// given is what an attempt panics with that goes no further.
type given struct{ *attempt }

// try makes the nth attempt, and returns how it failed.
func try(t *testing.T, n int, f func(t testing.TB)) error {
	a := &attempt{TB: t, name: t.Name()}
	if n > 1 {
		a.name += fmt.Sprint("-", n)
	}
	func() {
		defer a.clean() // also when the test is skipped
		a.goes(func() { f(a) })
	}()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.failures) == 0 {
		return nil
	}
	return errors.New(strings.Join(a.failures, "\n"))
}

func (a *attempt) clean() {
	for len(a.cleanups) > 0 {
		last := a.cleanups[len(a.cleanups)-1]
		a.cleanups = a.cleanups[:len(a.cleanups)-1]
		a.goes(last)
	}
}

// goes calls f, which may end the attempt.
func (a *attempt) goes(f func()) {
	defer func() {
		if p := recover(); p != nil && p != any(given{a}) {
			panic(p)
		}
	}()
	f()
}

func (a *attempt) fail(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = append(a.failures, strings.TrimSpace(text))
}

func (a *attempt) Name() string              { return a.name }
func (a *attempt) Cleanup(f func())          { a.cleanups = append(a.cleanups, f) }
func (a *attempt) Fail()                     { a.fail("failed") }
func (a *attempt) FailNow()                  { panic(given{a}) }
func (a *attempt) Error(args ...any)         { a.fail(fmt.Sprintln(args...)) }
func (a *attempt) Fatal(args ...any)         { a.Error(args...); a.FailNow() }
func (a *attempt) Errorf(f string, v ...any) { a.fail(fmt.Sprintf(f, v...)) }
func (a *attempt) Fatalf(f string, v ...any) { a.Errorf(f, v...); a.FailNow() }

func (a *attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.failures) > 0 || a.TB.Failed()
}
