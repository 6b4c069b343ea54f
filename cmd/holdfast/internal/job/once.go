package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/once"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
)

// OnceLock is the source of the lease of a job that is completed once in a window.
type OnceLock struct {
	*Lock
	MakeOnce func(locks *connect.Locks, wait holdfast.WaitOption) *once.Job

	attempt *attempt // under whose lease the command runs; nil if there is none
}

// attempt is a call of Once.Do. The function that it calls passes the lease on, and lasts for as long as the command.
type attempt struct {
	leases  chan *holdfast.Lease
	results chan error    // what the function returns
	over    chan struct{} // closed when Once.Do has returned run and err
	run     once.Completion
	err     error
}

// end makes the function return result, and waits for Once.Do, which releases the lease if it is not released yet.
func (a *attempt) end(result error) {
	a.results <- result
	<-a.over
}

// errNotCompleted is the result of a function whose command did not succeed.
var errNotCompleted = errors.New("the command did not succeed")

// completedError says that a job is completed already.
type completedError struct{ run once.Completion }

func (completedError) Error() string { return "the job is completed already" }

func (o *OnceLock) acquire(ctx context.Context) (*holdfast.Lease, error) {
	a := &attempt{leases: make(chan *holdfast.Lease), results: make(chan error), over: make(chan struct{})}
	once := o.MakeOnce(o.Run.Locks, o.Wait.option(o.Began))
	go func() {
		defer close(a.over)
		a.run, a.err = once.Do(ctx, func(_ context.Context, lease *holdfast.Lease) (string, error) {
			a.leases <- lease
			return "", <-a.results
		})
	}()
	select {
	case lease := <-a.leases:
		o.attempt = a
		return lease, nil
	case <-a.over:
		if a.err == nil {
			return nil, completedError{a.run}
		}
		return nil, a.err
	}
}

func (o *OnceLock) release(lease *holdfast.Lease) error {
	err := o.Lock.release(lease)
	o.attempt.end(errNotCompleted)
	return err
}

func (o *OnceLock) refused(ctx context.Context, err error) *exitcode.Error {
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
		return &exitcode.Error{Code: exitcode.Tries, Err: fmt.Errorf("%w (--max-tries); the command was not run", err)}
	}
	return o.Lock.refused(ctx, err)
}

// complete tries until the lease ends, or until a signal asks holdfast to end.
func (o *OnceLock) complete(lease *holdfast.Lease, lostCode int) (exit *exitcode.Error, recorded bool) {
	r, a := o.Run, o.attempt
	ctx, stop := signals.Context(context.Background())
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = lease.Release(context.Background()) })()
	a.end(nil)
	var lost *holdfast.LostError
	switch {
	case a.err == nil || a.run.Here:
		r.report.Run = NewPastRun(a.run)
		r.Console.Detailf("job %q is completed, on try %d", r.Name, a.run.Try)
		return &exitcode.Error{}, true
	case errors.As(a.err, &lost):
		r.report.Outcome = Lost
		return &exitcode.Error{Code: lostCode, Err: fmt.Errorf("%w; the command succeeded, but too late to count, so it may run again", lost)}, true
	}
	return &exitcode.Error{Code: exitcode.OfLibrary(a.err).Code, Err: fmt.Errorf("the command succeeded, but this could not be recorded, so it may run again: %w", a.err)}, true
}

// DescribeRun says when a run was completed, and by whom.
func DescribeRun(name string, run once.Completion) string {
	return fmt.Sprintf("job %q was completed at %s by %s (pid %d on %s)", name, run.Time.Local().Format(console.TimeFormat),
		printable.Word(run.Identity, MaxShown), run.PID, printable.Word(run.Host, MaxShown))
}
