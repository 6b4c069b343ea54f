// Package machine watches the machine while tests run on it. A shared machine sometimes stands still for
// seconds, or gives a process a fraction of a processor. A test may judge time only by what this package
// measured meanwhile.
package machine

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/harness"
)

const (
	// step is how long the watch sleeps between two readings of the clock.
	step = 10 * time.Millisecond

	// noticeable is the delay that excuses a test by default: half of the shortest timeout in these tests.
	noticeable = 300 * time.Millisecond

	// kept bounds how many delays the watch remembers.
	kept = 20_000
)

// delay is one time at which the watch woke up late.
type delay struct {
	end time.Time // when it woke up
	by  time.Duration
}

// watch is a goroutine that only sleeps, and so learns how late sleepers wake up.
type watch struct {
	beats  atomic.Int64 // how often it has woken up
	ended  atomic.Bool
	mu     sync.Mutex
	delays []delay // in order
}

var watching = start()

func start() *watch {
	w := &watch{}
	last := time.Now() // not the goroutine's first reading, before which the process may have stood still
	go func() {
		for !w.ended.Load() {
			time.Sleep(step)
			now := time.Now()
			// Delays shorter than a step are the timer's own.
			if by := now.Sub(last) - step; by > step {
				w.note(delay{now, by})
			}
			last = now
			w.beats.Add(1)
		}
	}()
	return w
}

// EndWatch ends the watch, in a process whose own use of the processor is measured. It wakes up a hundred times a second, which
// hundreds of processes cannot afford. Nothing else in this package may be called until Watch.
func EndWatch() { watching.ended.Store(true) }

// Watch begins a watch after EndWatch.
func Watch() { watching = start() }

func (w *watch) note(d delay) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.delays) == kept {
		w.delays = append(w.delays[:0], w.delays[kept/2:]...)
	}
	w.delays = append(w.delays, d)
}

// since returns the delays that ended after then.
func (w *watch) since(then time.Time) []delay {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.delays)
	for i > 0 && w.delays[i-1].end.After(then) {
		i--
	}
	return append([]delay(nil), w.delays[i:]...)
}

// virtual reports whether a time was read in a bubble of testing/synctest, whose clock starts
// in the year 2000. Nothing is ever late there.
func virtual(t time.Time) bool { return t.Year() < 2020 }

// settle waits until the watch has also woken up from a delay that has just ended for the caller.
func settle() {
	for next := watching.beats.Load() + 2; watching.beats.Load() < next; {
		time.Sleep(step)
	}
}

// measured returns the delays with which this process's sleepers woke up since then, their sum, and the longest.
func measured(then time.Time) (delays []delay, sum, longest time.Duration) {
	if virtual(then) {
		return nil, 0, 0
	}
	settle()
	delays = watching.since(then)
	for _, d := range delays {
		sum += d.by
		longest = max(longest, d.by)
	}
	return delays, sum, longest
}

// HeldUp returns the sum of the delays with which this process's sleepers woke up since then.
func HeldUp(then time.Time) time.Duration {
	_, sum, _ := measured(then)
	return sum
}

// Stalled reports whether, since then, the process stood still for 300 ms or longer, or was held up for more
// than half of the time: to a process that takes many steps, many short delays are as bad as a long one.
func Stalled(then time.Time) bool {
	took := time.Since(then)
	_, sum, longest := measured(then)
	return longest >= noticeable || sum > took/2
}

// Undisturbed requires that f returns nil. f depends on timeouts of a second or more. An attempt that fails
// proves nothing, and is repeated, if the process stood still meanwhile. With -short, it skips the test unless its time is virtual.
func Undisturbed(tb testing.TB, f func() error) {
	tb.Helper()
	nightly(tb)
	for range 10 {
		began := time.Now()
		err := f()
		if err == nil {
			return
		}
		if !Stalled(began) {
			tb.Fatalf("%v\n%s", err, Report(began))
		}
		tb.Logf("again, since the machine stood still: %v\n%s", err, Report(began))
	}
	tb.Fatal("the machine stood still in each of ten attempts")
}

// nightly skips a test that judges by the clock of a real machine, unless such tests are wanted.
func nightly(tb testing.TB) {
	tb.Helper()
	if testing.Short() && !virtual(time.Now()) {
		tb.Skip("SKIPPED: part of make nightly")
	}
}

// Unhurried requires that f returns nil. Its deadlines and timeouts are multiples of unit. An attempt that
// fails counts only if the process was held up for less than a quarter of unit meanwhile. Otherwise it is
// repeated with twice the unit, up to 32 times the first, with which every failure counts. So f can pass on a
// slow machine, too. With -short, Unhurried skips the test unless its time is virtual.
func Unhurried(tb testing.TB, unit time.Duration, f func(unit time.Duration) error) {
	tb.Helper()
	nightly(tb)
	for last := 32 * unit; ; unit *= 2 {
		began := time.Now()
		err := f(unit)
		if err == nil {
			return
		}
		heldUp := HeldUp(began)
		if heldUp < unit/4 || unit >= last {
			tb.Fatalf("with a unit of %v: %v\n%s", unit, err, Report(began))
		}
		tb.Logf("again, since the process was held up for %v with a unit of %v: %v", heldUp.Round(time.Millisecond), unit, err)
	}
}

// ReportFailure logs, if the test fails, what the machine did while it ran.
func ReportFailure(tb testing.TB) {
	began := time.Now()
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Log(Report(began))
		}
	})
}

// Report returns what the machine did since then, for the log of a test that failed.
func Report(then time.Time) string {
	if virtual(then) {
		return "the machine: the time was virtual, so nothing was late"
	}
	delays, sum, longest := measured(then)
	var worst []string
	for _, d := range delays {
		if d.by >= noticeable && len(worst) < 10 {
			worst = append(worst, fmt.Sprintf("%v until +%v", d.by.Round(time.Millisecond), d.end.Sub(then).Round(time.Millisecond)))
		}
	}
	text := fmt.Sprintf("the machine, in %v: this process was woken up late %d times, by %v in all, by %v at most; %d processors%s",
		time.Since(then).Round(time.Millisecond), len(delays), sum.Round(time.Millisecond), longest.Round(time.Millisecond), runtime.NumCPU(), load())
	if len(worst) > 0 {
		text += "; it stood still for " + strings.Join(worst, ", ")
	}
	return text
}

// load returns how many processes want a processor, if the system tells.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	if fields := strings.Fields(string(text)); len(fields) > 3 {
		return fmt.Sprintf(", load %s, %s running", fields[0], fields[3])
	}
	return ""
}

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
