// Package once provides jobs that are completed at most once in a window of time, by all processes together.
package once

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/option"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// Job is a job that is completed at most once in a window, by all processes together. It runs under the Mutex of its name, whatever the
// window, so runs of one name wait for each other. Its completion is recorded on the server while the lock is still held: of two callers
// that come at the same time, the later one learns of it. A run does not count if it fails, or if its process dies or loses the lock: the
// next caller runs the job again.
//
// A run may therefore be repeated after it was interrupted, or was completed without being recorded. Write the job so that this does no
// harm: the lease's fence tells resources which of two runs is the later. The record is lost with the server's data.
type Job struct {
	handle
	lock   *engine.Target
	window Window
	record string // the key of its record
	wait   option.Limit
	tries  int   // 0: no bound
	wrong  error // the window's error
}

type handle = printable.Handle[printable.Named]

// Option is an option of a job's lock: MaxTries, or one of package holdfast that fits, such as TTL or Wait.
type Option interface{ option.Once }

// MaxTries bounds how often all processes together begin a job in one window: one more try gets ErrExhausted. It is at least 1. With Every,
// tries are counted anew once d has passed since the first of them; with Slot they are not. Default: no bound.
func MaxTries(n int) Option {
	if n < 1 {
		return triesOption{Change: option.Refuse(errors.New("MaxTries below 1 is not possible"))}
	}
	return triesOption{Change: func(s *option.Set) { s.Tries = n }}
}

type triesOption struct {
	option.Change
	option.ForOnce
}

// Window says which runs of a job count as the same.
type Window struct {
	every  bool // the window is of Every, not a slot
	length time.Duration
	slot   string
	keep   time.Duration
}

// keepRecord is how long after its window a completion stays on record.
const keepRecord = 30 * 24 * time.Hour

// Every is a window that begins with a completed run and lasts d, by the server's clock, from 1 ms to 10 years. Choose d longer than the
// difference between the clocks of the hosts that start the job, and shorter than the time from the end of one run to the start of the
// next: for a job that cron starts once a day, and that takes an hour, 12 hours is a good choice.
func Every(d time.Duration) Window { return Window{every: true, length: d, keep: d + keepRecord} }

// Slot is a window with a name, such as "2026-11-22T02", the hour for which the job is due: hosts whose clocks differ agree on it. The name
// is 1 to 512 bytes of UTF-8 without control characters. The server remembers it for keep after its last try, from 1 ms to 10 years. Choose
// keep longer than anyone may still ask for the same slot. Slots of one name wait for each other: to process orders side by side, each
// once, make the order a part of the job's name.
func Slot(key string, keep time.Duration) Window { return Window{slot: key, keep: keep} }

const maxWindow = 10 * 365 * 24 * time.Hour

func (w Window) check() error {
	switch {
	case w == Window{}:
		return errors.New("the window is missing: Every or Slot")
	case w.every && (w.length < time.Millisecond || w.length > maxWindow):
		return fmt.Errorf("a window of %s is not possible; 1ms to %s is", w.length, maxWindow)
	case w.every:
		return nil
	case w.slot == "":
		return errors.New("the slot's key is empty")
	case w.keep < time.Millisecond || w.keep > maxWindow:
		return fmt.Errorf("to remember a slot for %s is not possible; for 1ms to %s is", w.keep, maxWindow)
	}
	return keys.Check("the slot's key", w.slot)
}

// New returns the job of that name, which is completed at most once in a window. If the window is invalid, using the job returns
// holdfast.ErrInvalid. New sends nothing.
func New(locks *holdfast.Client, name string, w Window, opts ...Option) *Job {
	c := access.Client(locks)
	o := option.Resolve(option.Set{Given: slices.Concat(c.Poll, c.Durable)}, opts)
	j := &Job{lock: c.Engine.Job(name, o.Given...), window: w, wait: o.Wait, tries: o.Tries}
	if err := w.check(); err != nil {
		j.wrong = fmt.Errorf("%w: job %.64q: %w", holdfast.ErrInvalid, name, err)
	}
	j.record = j.lock.Keys.Record(w.slot)
	j.handle = printable.Name("once.Job", j.lock)
	return j
}

// What happened to a job. Test for these with errors.Is.
var (
	// ErrExhausted says that the job was begun in this window as often as MaxTries allows, without being completed.
	ErrExhausted = errors.New("holdfast: job has failed too often")
	// ErrResult says that the job was completed, and counts, but that its result is longer than 64 KiB and was not recorded.
	ErrResult = errors.New("holdfast: result is too long")
	// ErrNone is returned by Last when no completion is on record.
	ErrNone = errors.New("holdfast: job has not been completed yet")
)

// Completion is a completed run of a job.
type Completion struct {
	Here     bool      // this call's f ran
	Current  bool      // the run counts for the present window
	Time     time.Time // by the server's clock
	Result   string    // what f returned; at most 64 KiB
	Identity string    // of the process that ran the job
	Host     string
	PID      int
	Fence    uint64 // of the run's lease
	Try      int    // the number of the try within its window, from 1
}

// Do runs f unless the job was completed in this window, and records the completion if f returns nil. It waits while another process runs
// the job, and runs f if that process fails. It returns the run that counts; Completion.Here says whether f ran. A job that was done
// already is no error.
//
// If only f fails, f's error is returned as it is; if the release fails, too, both errors are joined. An error that matches
// holdfast.ErrLost says that the lock was lost while f ran: the run does not count, whatever f did. ErrExhausted says that MaxTries are
// used up. Other errors are those of holdfast.Lock.Acquire.
//
// When f has returned nil, the completion is recorded even if ctx has ended. Do tries that for as long as the lease lasts; if it fails, the
// run may or may not count. ErrResult says that the run counts, but without its result, which is longer than 64 KiB. f's context is that of
// holdfast.Lock.Do. If f panics, the run does not count.
func (j *Job) Do(ctx context.Context, f func(ctx context.Context, l *holdfast.Lease) (result string, err error)) (Completion, error) {
	return j.do(ctx, j.wait.End(), (*holdfast.Lock).Do, f)
}

// TryDo is Do, but returns a *holdfast.HeldError at once while another process runs the job.
func (j *Job) TryDo(ctx context.Context, f func(ctx context.Context, l *holdfast.Lease) (result string, err error)) (Completion, error) {
	return j.do(ctx, time.Time{}, (*holdfast.Lock).TryDo, f)
}

// lockDo is the Do or TryDo of a lock.
type lockDo = func(l *holdfast.Lock, ctx context.Context, f func(context.Context, *holdfast.Lease) error) error

func (j *Job) do(ctx context.Context, end time.Time, lockDo lockDo, f func(context.Context, *holdfast.Lease) (string, error)) (Completion, error) {
	if err := j.lock.CheckNesting(ctx); err != nil {
		return Completion{}, access.Error(err)
	}
	asking, stop := j.lock.AskingBy(ctx, end)
	done, err := j.look(asking)
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		err = j.lock.Unanswered(err)
	}
	stop()
	if err != nil || done.Current {
		return done, access.Error(err)
	}
	done = Completion{}
	err = lockDo(access.NewLock(j.lock, option.Until(end)).(*holdfast.Lock), ctx, func(work context.Context, lease *holdfast.Lease) error {
		before, err := j.begin(work, lease)
		if err != nil || before.Current {
			done = before
			return err
		}
		result, err := f(work, lease)
		// mutants: job-succeeded
		if err == nil {
			// The work was done, even if ctx ended while f finished.
			done, err = j.complete(context.WithoutCancel(work), lease, result)
		}
		return err
	})
	return done, err
}

// begin counts a try. It returns the run that counts, if there is one. If the server did not answer, the try may count.
func (j *Job) begin(work context.Context, lease *holdfast.Lease) (Completion, error) {
	reply, err := engine.Ask(work, j.lock, "begin", true, &codec.BeginRun{
		Job: j.job(), Token: engine.TokenOf(access.Lease(lease)), Window: j.window.length, Keep: j.window.keep, Fence: lease.Fence(), MaxTries: j.tries,
	})
	switch {
	case err != nil && errors.Is(err, context.Canceled) && lease.Err() != nil:
		return Completion{}, context.Cause(work) // the client was closed; the caller's context did not end
	case err != nil:
		return Completion{}, access.Error(err)
	}
	switch reply.Word {
	case codec.Done:
		return completion(reply.Run), nil
	case codec.Spent:
		return Completion{}, fmt.Errorf("%w: job %q: tries in this window: %d, none completed", ErrExhausted, j.Name(), reply.Count)
	case codec.Used:
		return Completion{}, fmt.Errorf("%w: job %q: a run was completed under this lease", holdfast.ErrInvalid, j.Name())
	case codec.Gone, codec.Absent:
		return Completion{}, access.ErrorOf(lease, j.lock.Missing(reply.Word))
	}
	return Completion{}, nil
}

const maxResult = 64 << 10

// complete records that the run was completed. It retries temporary failures for as long as the lease lasts, even beyond RetryTimeout. It
// leaves out a result that is too long, and returns ErrResult; the run counts.
func (j *Job) complete(ctx context.Context, lease *holdfast.Lease, result string) (Completion, error) {
	// mutants: job-locked
	if err := lease.Err(); err != nil {
		return Completion{}, err
	}
	var tooLong error
	if len(result) > maxResult {
		tooLong = fmt.Errorf("%w: job %q counts as completed, without its result of %d bytes; at most %d are recorded", ErrResult, j.Name(), len(result), maxResult)
		result = ""
	}
	reply, err := j.insist(ctx, lease, &codec.CompleteRun{
		Job: j.job(), Token: engine.TokenOf(access.Lease(lease)), Keep: j.window.keep, Fence: lease.Fence(), Info: j.lock.Set.Info, Result: result,
	})
	switch {
	case err != nil:
		return Completion{}, access.Error(err)
	case reply.Word != codec.Completed:
		return Completion{}, access.ErrorOf(lease, j.lock.Missing(reply.Word))
	}
	return Completion{
		Here: true, Current: true, Time: time.UnixMicro(reply.Run.Completed), Result: result, Identity: lease.Identity(), Host: j.lock.Of.Host,
		PID: os.Getpid(), Fence: lease.Fence(), Try: reply.Run.Try,
	}, tooLong
}

func (j *Job) insist(ctx context.Context, lease *holdfast.Lease, q *codec.CompleteRun) (codec.Reply, error) {
	unanswered := false
	for {
		reply, err := engine.Ask(ctx, j.lock, "complete", true, q)
		var failure *exec.Failure
		if errors.As(err, &failure) {
			unanswered = unanswered || failure.Ambiguous
			failure.Ambiguous = unanswered
		}
		if err == nil || !engine.MayPass(err) {
			return reply, err
		}
		select {
		case <-time.After(schedule.Jitter(200*time.Millisecond, 50)):
		case <-ctx.Done():
			return reply, err
		case <-lease.Done():
			return reply, err
		}
	}
}

// Last returns the latest completion, for 30 days after its window, or ErrNone. Completion.Current says whether it counts now. Each Slot
// has a record of its own: Last of a Slot returns that slot's completion for as long as the server remembers it, and Last of Every knows of
// no Slot.
func (j *Job) Last(ctx context.Context) (Completion, error) {
	last, err := j.look(ctx)
	if err == nil && last.Time.IsZero() {
		return last, ErrNone
	}
	return last, access.Error(err)
}

// look returns the latest completion on record, or a zero one.
func (j *Job) look(ctx context.Context) (Completion, error) {
	if j.wrong != nil {
		return Completion{}, j.wrong
	}
	if err := j.lock.Ready(ctx); err != nil {
		return Completion{}, err
	}
	reply, err := engine.Ask(ctx, j.lock, "look up", false, codec.LookAtJob(j.job(), j.window.length))
	if err != nil || reply.Word != codec.Done {
		return Completion{}, err
	}
	return completion(reply.Run), nil
}

func completion(r *codec.Run) Completion {
	return Completion{
		Current: r.Counts, Time: time.UnixMicro(r.Completed), Result: r.Result, Identity: r.Info.Owner, Host: r.Info.Host, PID: r.Info.PID,
		Fence: r.Fence, Try: r.Try,
	}
}

// job returns the job as package codec's requests name it.
func (j *Job) job() codec.Job {
	return codec.Job{Lock: j.lock.Keys.Lock, Record: j.record, Flags: j.lock.Flags()}
}

// Name returns the job's name.
func (j *Job) Name() string { return j.lock.Name() }

// Status returns who runs the job and who waits to run it. It changes nothing.
func (j *Job) Status(ctx context.Context) (holdfast.Status, error) {
	return access.NewLock(j.lock, 0).(*holdfast.Lock).Status(ctx)
}
