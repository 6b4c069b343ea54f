package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// Once is holdfast.Once: a mutex, and a record of the latest run beside it.
type Once struct {
	lock   *target
	window Window
	record string // its key
	err    error
}

// Window says which runs of a job count as the same.
type Window struct {
	every  bool // not a slot's
	length time.Duration
	slot   string
	keep   time.Duration
}

// Every returns a window that begins when a run completes: for d, by the server's clock, no other run begins. Choose d
// longer than the difference between the clocks that start the job, and shorter than the time from the end of one run to
// the start of the next: 12 hours for a job that cron starts once a day and that takes an hour. At least 1 ms, at most 10
// years.
func Every(d time.Duration) Window { return Window{every: true, length: d, keep: d + keepRecord} }

// keepRecord is how long after its window a completion stays on record.
const keepRecord = 30 * 24 * time.Hour

// SlotKey returns a window with a name, such as the hour for which the job is due, "2026-11-22T02": hosts agree on it even
// if their clocks differ. The key is 1 to 512 bytes of UTF-8 without control characters. The server remembers it until keep
// after its last try, 1 ms to 10 years; choose keep so that nobody asks for the same slot later than that.
func SlotKey(key string, keep time.Duration) Window { return Window{slot: key, keep: keep} }

// MaxTries bounds how often all processes together begin a job of Once in one window: after n failed runs, the next one
// gets ErrTries. At least 1. Default: no bound.
func MaxTries(n int) Option {
	return func(s *settings) {
		if n <= 0 {
			n = -1
		}
		s.maxTries = n
	}
}

// Once returns the job of that name. Its options are those of its lock, and MaxTries.
func (c *Client) Once(name string, w Window, opts ...Option) *Once {
	// A request that is under way when a run ends must not take effect for the next run, which
	// would have the same token if the lock were passed on within the process.
	given := []Option{func(s *settings) { s.once, s.apart, s.seenAs = true, true, SeenAsOnce }}
	o := &Once{lock: c.newLock(name, append(given, opts...)), window: w}
	if err := w.check(); err != nil {
		o.err = fmt.Errorf("%w: job %.64q: %w", ErrInvalid, name, err)
	}
	o.record = o.lock.keys.Record(w.slot)
	return o
}

func (w Window) check() error {
	switch {
	case w == Window{}:
		return errors.New("the window is missing: Every or Slot")
	case w.every && (w.length < time.Millisecond || w.length > maxMaxTTL):
		return fmt.Errorf("a window of %s is not possible; 1ms to %s is", w.length, maxMaxTTL)
	case w.every:
		return nil
	case w.slot == "":
		return errors.New("the slot's key is empty")
	case w.keep < time.Millisecond || w.keep > maxMaxTTL:
		return fmt.Errorf("to remember a slot for %s is not possible; for 1ms to %s is", w.keep, maxMaxTTL)
	}
	return keys.Check("the slot's key", w.slot)
}

// Run is a run of a job that was completed.
type Run struct {
	Completed time.Time // by the server's clock
	Result    string    // what it returned
	Owner     string    // who ran it: Owner or Config.Owner
	Host      string
	PID       int
	Fence     uint64 // of its lease
	Try       int    // its number among the tries of its window, from 1
	Counts    bool   // it was completed in this window
	// Here reports whether this call ran it; otherwise it was done before.
	Here bool
}

// DoneError says that a job has already been completed in this window. It matches ErrDone.
type DoneError struct {
	Name string
	Run  Run
}

func (e *DoneError) Error() string {
	return fmt.Sprintf("holdfast: job %q is done already: completed at %s by %s", e.Name, e.Run.Completed.Format(time.DateTime), exec.Shown(e.Run.Owner))
}

// Is makes a DoneError match ErrDone.
func (e *DoneError) Is(target error) bool { return target == ErrDone }

// Lock returns the lock under which the job runs: the Mutex of its name.
func (o *Once) Lock() Lock { return o.lock }

// Do is holdfast.Once.Do, with a lease of the engine's.
func (o *Once) Do(ctx context.Context, f func(ctx context.Context, lease Lease) (result string, err error)) (Run, error) {
	return o.DoBy(ctx, time.Time{}, f)
}

// DoBy is Do, but waits for another process's run only until end, unless end is zero: see Lock.AcquireBy.
func (o *Once) DoBy(ctx context.Context, end time.Time, f func(ctx context.Context, lease Lease) (result string, err error)) (Run, error) {
	return o.do(ctx, end, func(ctx context.Context) (*holdLease, error) { return o.lock.acquireLease(ctx, end) }, f)
}

// TryDo is Do, but returns ErrHeld if another process is running the job.
func (o *Once) TryDo(ctx context.Context, f func(ctx context.Context, lease Lease) (result string, err error)) (Run, error) {
	return o.do(ctx, time.Time{}, o.lock.tryAcquire, f)
}

func (o *Once) do(ctx context.Context, end time.Time, acquire func(context.Context) (*holdLease, error), f func(context.Context, Lease) (string, error)) (Run, error) {
	if _, err := o.lock.outer(ctx); err != nil {
		return Run{}, err
	}
	asking, stop := o.lock.c.asking(ctx, end)
	last, err := o.look(asking)
	timeUp := asking.Err() != nil && ctx.Err() == nil
	stop()
	switch {
	case err != nil && timeUp:
		return Run{}, o.lock.c.unanswered(o.lock.name(), err)
	case err != nil || last.Counts:
		return last, err
	}
	lease, err := acquire(ctx)
	if err != nil {
		return Run{}, err
	}
	var run Run
	err = do(ctx, lease, func(ctx context.Context) error {
		err := o.Begin(ctx, lease)
		var done *DoneError
		if errors.As(err, &done) {
			run = done.Run
			return nil
		}
		if errors.Is(err, context.Canceled) && lease.Context().Err() != nil {
			return context.Cause(lease.Context()) // what ended it, and not ctx: the client was closed
		}
		if err != nil {
			return err
		}
		result, err := f(ctx, lease)
		// mutants: job-succeeded
		if err == nil {
			// Even if ctx ended while f finished: the work was done.
			run, err = o.Complete(context.WithoutCancel(ctx), lease, result)
		}
		return err
	})
	return run, err
}

// Begin counts a try and returns nil if the holder of the job's lock should run the job now. It is for callers that cannot
// use Do. Otherwise it returns a *DoneError, which matches ErrDone; ErrTries; a *LostError; or ErrInvalid if a run was
// completed under this lease in an earlier window, since a lease is for one run. If the server did not answer, the error
// says so and the try may count. Except after a *LostError, the lease is still held.
func (o *Once) Begin(ctx context.Context, lease *holdLease) error {
	if err := o.mine(ctx, lease, "Begin"); err != nil {
		return err
	}
	reply, err := askOfJob(ctx, o, "begin", true, &codec.BeginRun{
		Job: o.job(), Token: lease.g.attempt.token(), Window: o.window.length, Keep: o.window.keep,
		Fence: lease.fence, MaxTries: o.lock.set.maxTries,
	})
	if err != nil {
		return err
	}
	switch reply.Word {
	case codec.Done:
		return &DoneError{o.lock.name(), runOf(&reply.Run)}
	case codec.Spent:
		return fmt.Errorf("%w: job %q: %d runs in this window have begun, and none was completed", ErrTries, o.lock.name(), reply.Tries)
	case codec.Used:
		return fmt.Errorf("%w: job %q: a run was completed under this lease; for the next window acquire another", ErrInvalid, o.lock.name())
	case codec.Gone, codec.Absent:
		return o.lock.missing(reply.Word)
	}
	return nil
}

// maxResult bounds the result of a run, in bytes.
const maxResult = 64 << 10

// Complete records that the holder of the job's lock has completed the run that it began. It returns a *LostError if the
// lock is no longer the caller's: the run does not count, and another may have begun. While the server is unavailable,
// Complete retries until the lease or ctx ends. After any other error the run may count, now or when a request that is still
// under way arrives, until the lease is over. A result longer than 64 KiB is left out and Complete returns ErrResult; the
// run counts.
func (o *Once) Complete(ctx context.Context, lease *holdLease, result string) (Run, error) {
	if err := o.mine(ctx, lease, "Complete"); err != nil {
		return Run{}, err
	}
	var tooLong error
	if len(result) > maxResult {
		tooLong = fmt.Errorf("%w: job %q counts as completed, without its result of %d bytes; at most %d are recorded", ErrResult, o.lock.name(), len(result), maxResult)
		result = ""
	}
	s := lease.g.l.set
	reply, err := o.insist(ctx, lease, &codec.CompleteRun{
		Job: o.job(), Token: lease.g.attempt.token(), Keep: o.window.keep, Fence: lease.fence, Info: s.info, Result: result,
	})
	if err != nil {
		return Run{}, err
	}
	if reply.Word != codec.Completed {
		return Run{}, o.lock.missing(reply.Word)
	}
	return Run{
		Completed: time.UnixMicro(reply.Completed), Result: result, Owner: s.owner, Host: o.lock.c.host, PID: os.Getpid(),
		Fence: lease.fence, Try: reply.Try, Here: true, Counts: true,
	}, tooLong
}

// Last returns the latest completed run, even one of an earlier window, for 30 days after that window; with a SlotKey, the
// run for that slot. It returns ErrNotDone if there is none.
func (o *Once) Last(ctx context.Context) (Run, error) {
	last, err := o.look(ctx)
	if err == nil && last.Completed.IsZero() {
		err = ErrNotDone
	}
	return last, err
}

// look returns the latest run on record; a zero Run if there is none.
func (o *Once) look(ctx context.Context) (Run, error) {
	if o.err != nil {
		return Run{}, o.err
	}
	if err := o.lock.ready(ctx); err != nil {
		return Run{}, err
	}
	reply, err := askOfJob(ctx, o, "look up", false, &codec.LookAtJob{Job: o.job(), Window: o.window.length})
	if err != nil || reply.Word != codec.Done {
		return Run{}, err
	}
	return runOf(&reply.Run), nil
}

// runOf returns a run from the server's record of it.
func runOf(r *codec.Run) Run {
	return Run{
		Completed: time.UnixMicro(r.Completed), Result: r.Result, Owner: r.Info.Owner, Host: r.Info.Host, PID: r.Info.PID,
		Fence: r.Fence, Try: r.Try, Counts: r.Counts,
	}
}

// insist records a completion. A transient failure does not end it: it retries as long as the lease lasts, even beyond
// RetryTimeout.
func (o *Once) insist(ctx context.Context, lease *holdLease, q *codec.CompleteRun) (codec.CompleteReply, error) {
	unanswered := false
	for {
		reply, err := askOfJob(ctx, o, "complete", true, q)
		var failure *exec.Failure
		if errors.As(err, &failure) {
			unanswered = unanswered || failure.Ambiguous
			failure.Ambiguous = unanswered
		}
		if err == nil || !exec.Passing(exec.KindOf(err)) {
			return reply, err
		}
		select {
		case <-time.After(schedule.Jitter(200*time.Millisecond, 50)):
		case <-ctx.Done():
			return reply, err
		case <-lease.Context().Done():
			return reply, err
		}
	}
}

// job returns the job as requests name it.
func (o *Once) job() codec.Job {
	return codec.Job{Lock: o.lock.keys.Lock, Record: o.record, Flags: o.lock.flags()}
}

// askOfJob sends a request about a job's runs.
func askOfJob[R any](ctx context.Context, o *Once, op string, durable bool, q codec.Request[R]) (R, error) {
	a, _, err := ask(ctx, o.lock.c, request{op: op, lock: o.lock, durable: durable, unexplained: true}, q)
	return a.reply, err
}

// mine returns an error if the lease is not one of the job's lock, or is over.
func (o *Once) mine(ctx context.Context, lease *holdLease, what string) error {
	if o.err != nil {
		return o.err
	}
	if o.lock.set.err != nil {
		return o.lock.set.err
	}
	if have := lease.lock(); have.c != o.lock.c || have.keys != o.lock.keys || !have.set.once {
		return fmt.Errorf("%w: job %q: %s needs a lease of its lock; this is one of %q", ErrInvalid, o.lock.name(), what, have.name())
	}
	// mutants: job-locked
	if err := lease.Err(); err != nil {
		return err
	}
	return ctx.Err()
}
