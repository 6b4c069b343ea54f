package holdfast_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/once"
)

var errBroken = errors.New("broken")

// job is what a Once runs.
type job = func(context.Context, *holdfast.Lease) (string, error)

func succeeds(context.Context, *holdfast.Lease) (string, error) { return "fine", nil }
func fails(context.Context, *holdfast.Lease) (string, error)    { return "", errBroken }

// mustNotRun is a job that must not run.
func mustNotRun(t *testing.T) job {
	return func(context.Context, *holdfast.Lease) (string, error) {
		t.Error("the job runs again")
		return "", nil
	}
}

func TestOnceIsCompletedOnce(t *testing.T) {
	s := inParallel(t)
	theJob := func() *once.Job { return once.New(s.client(), "j", once.Every(time.Hour), holdfast.Identity("me")) }
	_, err := theJob().Last(t.Context())
	want(t, "Last before any run", err, once.ErrNone)
	var fence uint64
	first, err := theJob().Do(t.Context(), func(_ context.Context, lease *holdfast.Lease) (string, error) {
		fence = lease.Fence()
		wantHeld(t, s.client().Mutex("j"))
		return "42\nrows", nil
	})
	if err != nil || !first.Here || !first.Current || first.Result != "42\nrows" || first.Identity != "me" || first.PID != os.Getpid() ||
		first.Fence != fence || first.Try != 1 || first.Time.IsZero() {
		t.Fatalf("Do: %+v, %v", first, err)
	}
	first.Here = false
	lease := acquire(t, s.client().Mutex("j")) // what is done needs no lock
	for what, call := range map[string]func() (once.Completion, error){
		"Do":    func() (once.Completion, error) { return theJob().Do(t.Context(), mustNotRun(t)) },
		"TryDo": func() (once.Completion, error) { return theJob().TryDo(t.Context(), mustNotRun(t)) },
		"Last":  func() (once.Completion, error) { return theJob().Last(t.Context()) },
	} {
		if got, err := call(); err != nil || got != first {
			t.Errorf("%s: %+v, %v; want %+v", what, got, err, first)
		}
	}
	release(t, lease)
}

// Each slot is a window of its own. Otherwise each caller's own window decides.
func TestWindows(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	for _, name := range []string{"2026-11-22T02", "2026-11-22T03", "{odd} one"} {
		slot := once.New(c, "j", once.Slot(name, time.Hour))
		if got, err := slot.Do(t.Context(), succeeds); err != nil || !got.Here || got.Try != 1 {
			t.Errorf("slot %q: %+v, %v", name, got, err)
		}
		if got, err := slot.TryDo(t.Context(), mustNotRun(t)); err != nil || got.Here || got.Result != "fine" {
			t.Errorf("slot %q again: %+v, %v", name, got, err)
		}
	}
	short := once.New(c, "k", once.Every(50*time.Millisecond))
	first, err := short.Do(t.Context(), succeeds)
	must(t, err)
	time.Sleep(60 * time.Millisecond)
	if second, err := short.Do(t.Context(), succeeds); err != nil || !second.Here || second.Fence <= first.Fence || second.Try != 1 {
		t.Errorf("after its window: %+v, %v", second, err)
	}
	if got, err := once.New(c, "k", once.Every(time.Hour)).Do(t.Context(), mustNotRun(t)); err != nil || got.Here {
		t.Errorf("in a longer window: %+v, %v", got, err)
	}
}

// A run that fails, panics, or loses the lock or gives it up does not count.
func TestOnceRunsAgainAfterAFailure(t *testing.T) {
	s := inParallel(t)
	theJob := once.New(s.client(), "j", once.Every(time.Hour))
	got, err := theJob.Do(t.Context(), fails)
	if err != errBroken || got != (once.Completion{}) {
		t.Errorf("a run that fails: %+v, %v", got, err)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = theJob.TryDo(t.Context(), func(context.Context, *holdfast.Lease) (string, error) { panic("broken") })
	}()
	got, err = theJob.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
		s.steal("j")
		return "too late", nil
	})
	if !errors.Is(err, holdfast.ErrLost) || got != (once.Completion{}) {
		t.Errorf("a run that lost the lock: %+v, %v", got, err)
	}
	s.give("j")
	got, err = theJob.Do(t.Context(), func(ctx context.Context, lease *holdfast.Lease) (string, error) { return "late", lease.Release(ctx) })
	if !errors.Is(err, holdfast.ErrReleased) || got != (once.Completion{}) {
		t.Errorf("a run that gave its lock up: %+v, %v", got, err)
	}
	if got, err := theJob.Do(t.Context(), succeeds); err != nil || !got.Here || got.Try != 5 {
		t.Errorf("the run after four that do not count: %+v, %v", got, err)
	}
}

func TestMaxTries(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	theJob := once.New(c, "j", once.Every(time.Hour), once.MaxTries(2))
	for range 2 {
		_, err := theJob.Do(t.Context(), fails)
		want(t, "a run that fails", err, errBroken)
	}
	_, err := theJob.Do(t.Context(), mustNotRun(t))
	want(t, "a third try of two", err, once.ErrExhausted)
	_, err = theJob.TryDo(t.Context(), mustNotRun(t))
	want(t, "a third try of two", err, once.ErrExhausted)
	if got, err := once.New(c, "j", once.Every(time.Hour), once.MaxTries(3)).Do(t.Context(), succeeds); err != nil || got.Try != 3 {
		t.Errorf("a third try of three: %+v, %v", got, err)
	}
	short := once.New(c, "k", once.Every(20*time.Millisecond), once.MaxTries(1))
	for _, run := range []job{fails, fails, succeeds, fails} { // each window has all tries again
		_, err := short.Do(t.Context(), run)
		if _, want := run(t.Context(), nil); err != want {
			t.Errorf("a run in a window of its own: %v; want %v", err, want)
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// A caller that comes while another process runs the job waits for it to finish.
func TestOnceWaitsForWhoRunsIt(t *testing.T) {
	t.Parallel()
	for _, result := range []error{nil, errBroken} {
		s := newSpace(t)
		theJob := func() *once.Job { return once.New(s.client(), "j", once.Every(time.Hour)) }
		var next <-chan outcome[once.Completion]
		_, err := theJob().Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
			_, err := theJob().TryDo(t.Context(), mustNotRun(t))
			want(t, "TryDo while another runs it", err, holdfast.ErrHeld)
			bounded := once.New(s.client(), "j", once.Every(time.Hour), holdfast.Wait(0))
			err = answered(t, func() error { _, err := bounded.Do(t.Context(), mustNotRun(t)); return err })
			want(t, "Do with Wait(0) while another runs it", err, holdfast.ErrHeld)
			waiting := theJob()
			next = start(t, func(ctx context.Context) (once.Completion, error) { return waiting.Do(ctx, succeeds) })
			awaitWaiters(t, waiting, 1)
			return "first", result
		})
		equal(t, "Do", err, result)
		equal(t, "the waiter's run counts", succeeded(t, next).Here, result != nil)
	}
}

// A completed run counts even if its caller's context has ended.
func TestOnceOfAContextThatEnds(t *testing.T) {
	s := inParallel(t)
	theJob := once.New(s.client(), "j", once.Every(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	got, err := theJob.Do(ctx, func(work context.Context, _ *holdfast.Lease) (string, error) {
		cancel()
		receive(t, work.Done())
		return "done", nil
	})
	if err != nil || !got.Here {
		t.Errorf("Do: %+v, %v", got, err)
	}
	if got, err := theJob.Last(t.Context()); err != nil || got.Result != "done" {
		t.Errorf("Last: %+v, %v", got, err)
	}
}

func TestOnceOfALongResult(t *testing.T) {
	s := inParallel(t)
	theJob := once.New(s.client(), "j", once.Every(time.Hour))
	longest := func(context.Context, *holdfast.Lease) (string, error) { return strings.Repeat("x", 64<<10), nil }
	if got, err := once.New(s.client(), "other", once.Every(time.Hour)).Do(t.Context(), longest); err != nil || len(got.Result) != 64<<10 {
		t.Errorf("a result of 64 KiB: %d bytes, %v", len(got.Result), err)
	}
	run, err := theJob.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) { return strings.Repeat("x", 64<<10+1), nil })
	want(t, "a result of more than 64 KiB", err, once.ErrResult)
	if errors.Is(err, holdfast.ErrInvalid) || !run.Here || !run.Current || run.Result != "" {
		t.Errorf("a result of more than 64 KiB: %+v, %v", run, err)
	}
	if got, err := theJob.Do(t.Context(), mustNotRun(t)); err != nil || got.Result != "" {
		t.Errorf("Do after that: %+v, %v", got, err)
	}
}
