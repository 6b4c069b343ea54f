package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/once"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
)

// Wait is how long to wait for a lock. 0 is a single try.
type Wait time.Duration

// Forever waits until the lock is granted.
const Forever Wait = -1

// option limits a wait to what is left of w, counted from began.
func (w Wait) option(began time.Time) holdfast.WaitOption {
	if w < 0 {
		return holdfast.Options()
	}
	return holdfast.Wait(max(time.Until(began.Add(time.Duration(w))), 0))
}

// Lock is the source of a run's only lease.
type Lock struct {
	Run     *Run
	Make    func(wait holdfast.WaitOption) *holdfast.Lock
	Once    func(wait holdfast.WaitOption) *once.Job // the job that is completed once in a window; nil for other runs
	Several bool                                     // several runs can hold the lock at once
	Foreign bool                                     // the lock is shared with other programs, by its key
	Wait    Wait
	Began   time.Time // when the wait began

	// What to do if others hold the lock: exit with 0, or else with BusyCode.
	SkipIfBusy bool
	BusyCode   int

	met string // the error that acquire has reported to the user
}

// lock makes the lock. Its limit for waiting is what is left of Wait.
func (l *Lock) lock() *holdfast.Lock { return l.Make(l.Wait.option(l.Began)) }

func (l *Lock) quiet() bool { return l.Run.Console.Level() == console.Quiet }

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
		if l.met == "" && !l.quiet() {
			l.met = err.Error()
			l.Run.Console.Notef("%v; trying again for %s (--wait)", l.Run.Servers.Explain(err), left.Round(time.Second))
		}
		select {
		case <-time.After(min(left, time.Second)):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (l *Lock) do(ctx context.Context, use func(*holdfast.Lease) error) error {
	lease, err := l.acquire(ctx)
	if err != nil {
		return err
	}
	return use(lease)
}

func (l *Lock) waiting() string {
	return fmt.Sprintf("waiting for %s on %s; the command was not run", l.Run.title(), l.Run.Servers.Addr())
}

func (l *Lock) tellWaiting(ctx context.Context) {
	r := l.Run
	status, err := l.lock().Status(ctx)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, holdfast.ErrQuarantine): // acquire reports it
	case err != nil:
		r.Console.Notef("waiting for %s: %v", r.title(), err)
	case !status.Held():
		r.Console.Notef("waiting for %s, which is being handed over", r.title())
	case r.Servers.AreQuorum(): // does not know its waiters
		r.Console.Notef("waiting for %s, held by %s", r.title(), describe(status.Holders))
	default:
		waiting := max(status.Waiting, 1) // this process may not be in the queue yet
		r.Console.Notef("waiting for %s, held by %s; %d waiting", r.title(), describe(status.Holders), waiting)
	}
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
			fmt.Sprintf("after --wait %s, %s on %s is still held by", time.Duration(l.Wait), r.title(), r.Servers.Addr()))
	}
	name := held.Name
	if l.Foreign { // its name in the library is its key
		name = r.Name
	}
	what := fmt.Sprintf("lock %q on %s", name, r.Servers.Addr())
	if l.Several && waiting > 0 { // the waiters may be the reason for the refusal
		what += fmt.Sprintf(", with %d waiting,", waiting)
	}
	return l.busy(holders, waiting, what+" is held by")
}

// holders returns all holders of a lock that was refused, and the number of waiters. The refusal itself names at most one holder, and none
// if the lock was kept for waiters.
func (l *Lock) holders(ctx context.Context, refused *holdfast.HeldError) (all []holdfast.Holder, waiting int) {
	lock := l.lock()
	if len(l.Run.Also) > 0 {
		lock = l.Run.Locks.Client().Mutex(refused.Name)
	}
	status, err := lock.Status(ctx)
	unnamed := refused.Holder.Identity == "" && !refused.Holder.Foreign
	if err == nil && (l.Several || unnamed) {
		return status.Holders, status.Waiting
	}
	if unnamed {
		return nil, 0
	}
	return []holdfast.Holder{refused.Holder}, status.Waiting
}

func longest(holders []holdfast.Holder) holdfast.Holder {
	return slices.MinFunc(holders, func(a, b holdfast.Holder) int { return a.Since.Compare(b.Since) })
}

// describe describes the holders of a lock, or of several locks, in a few words.
func describe(holders []holdfast.Holder) string {
	if len(holders) == 0 {
		return "a holder that is handing it over"
	}
	first := longest(holders)
	text := lockstatus.Describe(first)
	if others := len(holders) - 1; others > 0 {
		text += " and " + console.Count(others, "other")
	}
	return text
}

// busy returns the exit code for a lock that others hold, and records the outcome. heldBy is the beginning of a sentence.
func (l *Lock) busy(holders []holdfast.Holder, waiting int, heldBy string) *exitcode.Error {
	r := l.Run
	if len(holders) > 0 {
		r.report.Holder = lockstatus.NewAwaited(longest(holders), waiting)
	}
	if l.SkipIfBusy {
		r.report.Outcome = Skipped
		r.tellf("%s %s; skipped", heldBy, describe(holders))
		return &exitcode.Error{}
	}
	r.report.Outcome = Busy
	if l.quiet() {
		return &exitcode.Error{Code: l.BusyCode}
	}
	return exitcode.Errorf(l.BusyCode, "%s %s; the command was not run", heldBy, describe(holders))
}

// failure is Run.failure, with advice about foreign locks. It does not repeat an error that acquire has reported.
func (l *Lock) failure(err error) *exitcode.Error {
	r := l.Run
	exit := r.failure(err)
	if err.Error() == l.met {
		r.report.Error = exit.Err.Error()
		r.Console.Notef("gave up on %s on %s after --wait %s; the command was not run", r.title(), r.Servers.Addr(), time.Duration(l.Wait))
		exit.Err = nil
	}
	var server *holdfast.ServerError
	aboutKey := errors.Is(err, holdfast.ErrMismatch) && !(errors.As(err, &server) && server.Code == "BADFENCE")
	if aboutKey && l.Foreign {
		exit.Err = fmt.Errorf("%w; all programs that share a lock use one form: "+
			"--key is for a string, --redisson for the hash of Redisson's RLock", err)
	}
	return exit
}

// nested refuses a plain run within a job that holds the same lock: the job would wait for the run, and the run for the job. The fence
// tells this lock from one of the same name on another server or under another prefix. nested ignores errors.
func (l *Lock) nested(ctx context.Context) *exitcode.Error {
	r := l.Run
	if l.Several || l.Foreign || l.Wait == 0 {
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
					"itself; give both runs the same --owner ID, or this one another NAME", name, r.Servers.Addr())
			}
			if known = err != nil || holder.Grant == "" || holder.Fence != 0; !known {
				time.Sleep(100 * time.Millisecond) // the grant is new, and its fence is not stored yet
			}
		}
	}
	return nil
}
