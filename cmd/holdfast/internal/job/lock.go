package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/exec"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// Kind is a kind of lock.
type Kind struct {
	Make func(locks *connect.Locks, option holdfast.Option, wait holdfast.WaitOption) *holdfast.Lock
	// Several reports whether several runs can hold the lock at once.
	Several bool
	// Foreign is the flag by which the lock is shared with other programs; "" if it is not.
	Foreign string
}

// Wait is how long to wait for a lock. 0 is a single try.
type Wait time.Duration

// Forever waits for as long as it takes.
const Forever Wait = -1

// option bounds a wait that began then.
func (w Wait) option(began time.Time) holdfast.WaitOption {
	if w < 0 {
		return holdfast.Options()
	}
	return holdfast.Wait(max(time.Until(began.Add(time.Duration(w))), 0))
}

// OnBusy is what a run does if somebody else holds the lock.
type OnBusy struct {
	Skip  bool // exit with 0
	Code  int  // otherwise, the exit code
	Quiet bool // say nothing
}

// Lock is the source of a run's only lease: a lock.
type Lock struct {
	Run    *Run
	Kind   Kind
	Option holdfast.Option
	KeyOf  func(name string) string // returns the key of the lock of a name, which is another one if Kind is foreign; "" if there is none
	Wait   Wait
	OnBusy OnBusy
	Began  time.Time // when the wait began

	met string // the error of which acquire has told the user
}

// lock makes the lock. What is left of Wait bounds an acquire from now on.
func (l *Lock) lock() *holdfast.Lock {
	return l.Kind.Make(l.Run.Locks, l.Option, l.Wait.option(l.Began))
}

func (l *Lock) acquire(ctx context.Context) (*holdfast.Lease, error) {
	if l.Wait == 0 {
		return l.lock().TryAcquire(ctx)
	}
	for {
		lease, err := l.lock().Acquire(ctx)
		left := time.Until(l.Began.Add(time.Duration(l.Wait)))
		if l.Wait < 0 || left <= 0 || !errors.Is(err, holdfast.ErrUnavailable) || exec.Hopeless(err) || ctx.Err() != nil {
			return lease, err
		}
		if l.met == "" && !l.OnBusy.Quiet {
			l.met = err.Error()
			l.Run.Console.Notef("%v; trying again for %s (--wait)", l.Run.Servers.Explain(err), left.Round(time.Second))
		}
		select {
		case <-time.After(min(left, time.Second)):
		case <-ctx.Done():
		}
	}
}

func (l *Lock) release(lease *holdfast.Lease) error { return lease.Release(context.Background()) }

func (l *Lock) waiting() string {
	return fmt.Sprintf("waiting for %s; the command was not run", l.Run.title())
}

func (l *Lock) tellWaiting(ctx context.Context) {
	r := l.Run
	status, err := l.lock().Status(ctx)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, holdfast.ErrQuarantine): // acquire says so
	case err != nil:
		r.Console.Notef("waiting for %s: %v", r.title(), err)
	case !status.Held():
		r.Console.Notef("waiting for %s, which is being handed over", r.title())
	case r.isQuorum(): // does not know its waiters
		r.Console.Notef("waiting for %s, held by %s", r.title(), l.describe(status.Holders))
	default:
		waiting := max(status.Waiting, 1) // this one may not be queued yet
		r.Console.Notef("waiting for %s, held by %s; %d waiting", r.title(), l.describe(status.Holders), waiting)
	}
}

func (l *Lock) describe(holders []holdfast.Holder) string {
	keyOf := l.KeyOf
	if l.Kind.Foreign != "" {
		keyOf = func(name string) string { return name }
	}
	return describeAll(holders, keyOf)
}

func (l *Lock) refused(ctx context.Context, err error) *exitcode.Error {
	r := l.Run
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var held *holdfast.HeldError
	if !errors.As(err, &held) {
		return l.failure(err)
	}
	holders, waiting := l.holders(ctx, held)
	if l.Wait > 0 {
		return l.busy(holders, waiting,
			fmt.Sprintf("after --wait %s, %s on %s is still held by", time.Duration(l.Wait), r.title(), r.report.Server))
	}
	name := held.Name
	if l.Kind.Foreign != "" { // such a lock is named by its key
		name = r.Name
	}
	what := fmt.Sprintf("lock %q on %s", name, r.report.Server)
	if l.Kind.Several && waiting > 0 { // they may be why it was not granted
		what += fmt.Sprintf(", with %d waiting,", waiting)
	}
	return l.busy(holders, waiting, what+" is held by")
}

// holders returns all holders of a lock that was refused, and how many wait for it. The refusal names only one of the
// holders, and none if the lock was kept for those who wait.
func (l *Lock) holders(ctx context.Context, refused *holdfast.HeldError) (all []holdfast.Holder, waiting int) {
	lock := l.lock()
	if len(l.Run.Also) > 0 {
		lock = l.Run.Locks.Client().Mutex(refused.Name)
	}
	status, err := lock.Status(ctx)
	unnamed := refused.Holder.Identity == "" && !refused.Holder.Foreign
	if err == nil && (l.Kind.Several || unnamed) {
		return status.Holders, status.Waiting
	}
	if unnamed {
		return nil, 0
	}
	return []holdfast.Holder{refused.Holder}, status.Waiting
}

// busy returns how to exit if others hold the lock, and so many wait for it. heldBy is the beginning of a sentence.
func (l *Lock) busy(holders []holdfast.Holder, waiting int, heldBy string) *exitcode.Error {
	r := l.Run
	if len(holders) > 0 {
		r.report.Holder = NewHolder(longest(holders), waiting)
	}
	if l.OnBusy.Skip {
		r.report.Outcome = Skipped
		r.tellf("%s %s; skipped", heldBy, l.describe(holders))
		return &exitcode.Error{}
	}
	r.report.Outcome = Busy
	if l.OnBusy.Quiet {
		return &exitcode.Error{Code: l.OnBusy.Code}
	}
	return exitcode.Errorf(l.OnBusy.Code, "%s %s; the command was not run", heldBy, l.describe(holders))
}

// failure is Run.Failure, with advice about foreign locks.
func (l *Lock) failure(err error) *exitcode.Error {
	r := l.Run
	exit := r.Failure(err)
	if err.Error() == l.met {
		r.report.Error = exit.Err.Error()
		r.Console.Notef("gave up on %s on %s after --wait %s; the command was not run", r.title(), r.report.Server, time.Duration(l.Wait))
		exit.Err = nil
	}
	var server *holdfast.ServerError
	aboutKey := errors.Is(err, holdfast.ErrMismatch) && !(errors.As(err, &server) && server.Code == "BADFENCE")
	if aboutKey && l.Kind.Foreign != "" {
		exit.Err = fmt.Errorf("%w; all programs that share a lock use one form: "+
			"--key is for a string, --redisson for the hash of Redisson's RLock", err)
	}
	return exit
}

// nested refuses a plain run that would wait for a lock of a job that it is in, because that job waits for the run. The fence tells
// this lock from one of the same name on another server or under another prefix. nested ignores errors.
func (l *Lock) nested(ctx context.Context) *exitcode.Error {
	r := l.Run
	if l.Kind.Several || l.Kind.Foreign != "" || l.Wait == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	outer := outerFences()
	for _, name := range append([]string{r.Name}, r.Also...) {
		fence := outer[name]
		if fence == 0 {
			continue
		}
		for known := false; !known; {
			status, err := r.Locks.Mutex(name, holdfast.Options(), holdfast.Options()).Status(ctx)
			holder, _ := status.Holder()
			if holder.Fence == fence {
				return exitcode.Errorf(exitcode.Usage, "lock %q on %s is held for the job that this run is in, so the run would wait for "+
					"itself; give both runs the same --owner ID, or this one another NAME", name, r.report.Server)
			}
			if known = err != nil || holder.Grant == "" || holder.Fence != 0; !known {
				time.Sleep(100 * time.Millisecond) // the job has begun just now
			}
		}
	}
	return nil
}
