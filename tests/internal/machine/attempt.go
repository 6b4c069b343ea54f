package machine

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/harness"
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
	*harness.TB
	name string
	ctx  context.Context // until the cleanups
}

func (a *attempt) Name() string             { return a.name }
func (a *attempt) Context() context.Context { return a.ctx }

// try makes the nth attempt, and returns how it failed.
func try(t *testing.T, n int, f func(t testing.TB)) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := &attempt{&harness.TB{TB: t}, t.Name(), ctx}
	if n > 1 {
		a.name += fmt.Sprint("-", n)
	}
	a.Guard(func() { f(a) })
	cancel()
	a.Close()
	if t.Skipped() {
		runtime.Goexit()
	}
	return a.Err()
}
