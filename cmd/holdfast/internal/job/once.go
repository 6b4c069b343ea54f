package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/once"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
)

// onceLock is the source of the lease of a job that is completed once in a window.
type onceLock struct {
	*Lock
	*borrowed // from the attempt under whose lease the command runs
	run       once.Completion
}

// errNotCompleted is the result of an attempt whose command did not succeed.
var errNotCompleted = errors.New("the command did not succeed")

type completedError struct{ run once.Completion }

func (completedError) Error() string { return "the job is completed already" }

func (o *onceLock) acquire(ctx context.Context) (*holdfast.Lease, error) {
	job := o.Once(o.Wait.option(o.Began))
	o.borrowed = borrow(func(use func(context.Context, *holdfast.Lease) error) (err error) {
		o.run, err = job.Do(ctx, func(_ context.Context, lease *holdfast.Lease) (string, error) {
			return "", use(context.Background(), lease) // the run notices a lease that is lost already, and asks for another one
		})
		return err
	})
	lease, err := o.next(context.Background()) // Do returns when ctx ends
	if lease == nil && err == nil {
		err = completedError{o.run}
	}
	return lease, err
}

func (o *onceLock) release(lease *holdfast.Lease) error {
	err := o.Lock.release(lease)
	o.giveBack(errNotCompleted)
	<-o.over
	return err
}

func (o *onceLock) refused(ctx context.Context, err error) *exitcode.Error {
	r := o.Run
	var completed completedError
	switch {
	case errors.As(err, &completed):
		r.report.Outcome = Done
		r.report.Run = NewPastRun(completed.run)
		r.tellf("%s; the command was not run", DescribeRun(r.Name, completed.run))
		return &exitcode.Error{}
	case errors.Is(err, once.ErrExhausted):
		r.report.Outcome = Tries
		return exitcode.Errorf(exitcode.Tries, "%w (--max-tries); the command was not run", err)
	}
	return o.Lock.refused(ctx, err)
}

// complete records that the command has succeeded, and releases the lease. It retries until the lease ends, or until a signal asks
// holdfast to end.
func (o *onceLock) complete(lease *holdfast.Lease, lostCode int) *exitcode.Error {
	r := o.Run
	ctx, stop := signals.Context(context.Background())
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = lease.Release(context.Background()) })()
	o.giveBack(nil)
	<-o.over
	var lost *holdfast.LostError
	switch {
	case o.err == nil || o.run.Here:
		r.report.Run = NewPastRun(o.run)
		r.Console.Detailf("job %q is completed, on try %d", r.Name, o.run.Try)
		return &exitcode.Error{}
	case errors.As(o.err, &lost):
		r.report.Outcome = Lost
		return exitcode.Errorf(lostCode, "%w; the command succeeded, but too late to count, so it may run again", lost)
	}
	return exitcode.Errorf(exitcode.OfLibrary(o.err).Code,
		"the command succeeded, but this could not be recorded, so it may run again: %w", o.err)
}

// DescribeRun says when a run was completed, and by whom.
func DescribeRun(name string, run once.Completion) string {
	return fmt.Sprintf("job %q was completed at %s by %s (pid %d on %s)", name, run.Time.Local().Format(console.TimeFormat),
		printable.Word(run.Identity, lockstatus.MaxShown), run.PID, printable.Word(run.Host, lockstatus.MaxShown))
}
