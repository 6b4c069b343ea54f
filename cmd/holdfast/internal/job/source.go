package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/once"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// source is where a run gets leases from: a lock, the lock of a job that is completed once, or the terms of an election.
type source interface {
	acquire(ctx context.Context) (*holdfast.Lease, error)
	release(lease *holdfast.Lease) error
	// refused returns the exit code after acquire has failed with err.
	refused(ctx context.Context, err error) *exitcode.Error
	// tellWaiting tells the user who holds what the run waits for.
	tellWaiting(ctx context.Context)
	// waiting says in a few words what a signal interrupts.
	waiting() string
}

// obtain returns a lease that lasts long enough for a job, or the exit code without one. A lease that was handed over may be short at
// first, perhaps too short to end a command in time.
func (r *Run) obtain(ctx context.Context, s source, ttl time.Duration, began time.Time) (*holdfast.Lease, *exitcode.Error) {
	defer func() { r.report.Waited = time.Since(began).Milliseconds() }()
	for {
		lease, exit := r.acquire(ctx, s)
		if exit != nil || time.Until(lease.Deadline()) >= ttl/2 {
			return lease, exit
		}
		err := lease.Extend(ctx, ttl)
		if err == nil {
			return lease, nil
		}
		exit = r.failure(err)
		r.release(s, lease, exit)
		if !errors.Is(err, holdfast.ErrLost) {
			return nil, exit
		}
		r.Console.Detailf("%v, before the command could begin; trying again", err)
	}
}

// tellAfter is how long a run waits, on a terminal, before it says what for.
const tellAfter = time.Second

// acquire returns a lease, or the exit code without one. A signal ends the wait.
func (r *Run) acquire(ctx context.Context, s source) (*holdfast.Lease, *exitcode.Error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		lease *holdfast.Lease
		err   error
	}
	acquired := make(chan result, 1)
	go func() {
		lease, err := s.acquire(ctx)
		acquired <- result{lease, err}
	}()
	r.closeTime = connect.CloseTime
	tell := time.NewTimer(tellAfter)
	defer tell.Stop()
	var interrupt os.Signal
	for {
		select {
		case got := <-acquired:
			if interrupt != nil {
				r.report.Outcome = Interrupted
				exit := exitcode.Errorf(exitcode.Signal+terminal.Number(interrupt), "%s while %s", interrupt, s.waiting())
				if got.lease != nil {
					r.release(s, got.lease, exit)
				}
				return nil, exit
			}
			if got.err != nil {
				if errors.Is(got.err, holdfast.ErrUnavailable) &&
					!errors.Is(got.err, holdfast.ErrQuarantine) && !errors.Is(got.err, holdfast.ErrReplicas) {
					r.closeTime = time.Second // the server is unlikely to answer soon
				}
				return nil, s.refused(ctx, got.err)
			}
			return got.lease, nil
		case sig := <-r.signals:
			switch {
			case sig == terminal.Suspend:
				terminal.StopGroup()
			case terminal.EndsProgram(sig) && interrupt == nil:
				interrupt = sig
				cancel()
			}
		case <-tell.C:
			if r.Console.Level() == console.Verbose || console.IsTerminal(r.Streams.Err) {
				go s.tellWaiting(ctx)
			}
		}
	}
}

// borrowed turns around a function that calls back with a lease (Once.Do, Election.Run): next returns the lease, and the callback
// returns when giveBack is called.
type borrowed struct {
	leases  chan *holdfast.Lease
	results chan error    // results of the callback
	over    chan struct{} // closed when the function has returned err
	err     error
	lent    bool // the callback waits for its result
}

// borrow starts the function lend. lend's callback must return what use returns.
func borrow(lend func(use func(ctx context.Context, lease *holdfast.Lease) error) error) *borrowed {
	b := &borrowed{leases: make(chan *holdfast.Lease), results: make(chan error), over: make(chan struct{})}
	go func() {
		defer close(b.over)
		b.err = lend(func(ctx context.Context, lease *holdfast.Lease) error {
			select {
			case b.leases <- lease:
				return <-b.results
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return b
}

// next returns the next lease. If the function has returned, next returns nil and the function's error.
func (b *borrowed) next(ctx context.Context) (*holdfast.Lease, error) {
	select {
	case lease := <-b.leases:
		b.lent = true
		return lease, nil
	case <-b.over:
		return nil, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// giveBack makes the callback return result. Without a lease it does nothing.
func (b *borrowed) giveBack(result error) {
	if b.lent {
		b.lent = false
		b.results <- result
	}
}

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
	ctx, stop := terminal.Context(context.Background())
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

// Terms says how many terms a candidate leads.
type Terms struct {
	Again bool // campaign again even if the command has ended by itself
	Most  int  // the maximum; 0 for no bound
}

// InElection campaigns, and runs the job while it leads, for as many terms as terms allows.
func (r *Run) InElection(ctx context.Context, j *Job, election *election.Election, terms Terms) *exitcode.Error {
	// A server that cannot be reached now is an error. Later, the campaign waits until an outage is over.
	if _, err := election.Status(ctx); err != nil {
		return r.failure(err)
	}
	if exit := r.reserve(); exit != nil {
		return exit
	}
	c := newCandidate(ctx, r, election)
	defer c.withdraw()
	for {
		r.report.Error = ""
		lease, exit := r.obtain(ctx, c, j.TTL, time.Now())
		if exit != nil {
			return exit
		}
		r.report.Terms++
		exit, ended := r.hold(j, c, lease)
		if ended || r.report.Terms == terms.Most || !terms.continues(r.report.Outcome, exit.Code) {
			return exit
		}
		if exit.Err != nil {
			r.Console.Error(fmt.Errorf("%w; campaigning again", exit.Err))
		} else {
			r.Console.Detailf("the command ended with exit code %d; campaigning again", exit.Code)
		}
	}
}

// continues reports whether another term follows one that ended with this outcome and exit code.
func (t Terms) continues(outcome Outcome, code int) bool {
	switch outcome {
	case Lost:
		return true
	case Failed:
		return false
	}
	// On a terminal, ^C goes only to the command.
	interrupted := code == exitcode.Signal+int(syscall.SIGINT) || code == exitcode.Signal+int(syscall.SIGQUIT)
	return t.Again && !interrupted && code != exitcode.NotRunnable && code != exitcode.NotFound
}

// candidate is a source whose leases are the terms of an election.
type candidate struct {
	*borrowed
	run      *Run
	election *election.Election
	cancel   context.CancelFunc // ends the campaign
	elected  time.Time          // when the latest term began
}

func newCandidate(ctx context.Context, r *Run, e *election.Election) *candidate {
	c := &candidate{run: r, election: e}
	ctx, c.cancel = context.WithCancel(ctx)
	c.borrowed = borrow(func(use func(context.Context, *holdfast.Lease) error) error { return e.Run(ctx, use) })
	return c
}

func (c *candidate) withdraw() {
	c.cancel()
	c.giveBack(election.ErrResign)
	<-c.over
}

// termPause is the minimum time between the beginnings of two terms, so that a command that fails at once is not restarted in a tight loop.
const termPause = time.Second

// acquire resigns from the present term, if there is one, and returns the next.
func (c *candidate) acquire(ctx context.Context) (*holdfast.Lease, error) {
	if c.lent {
		select {
		case <-time.After(time.Until(c.elected.Add(termPause))):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		c.giveBack(election.ErrResign)
	}
	term, err := c.next(ctx)
	c.elected = time.Now()
	return term, err
}

func (c *candidate) release(lease *holdfast.Lease) error { return lease.Release(context.Background()) }

func (c *candidate) refused(_ context.Context, err error) *exitcode.Error { return c.run.failure(err) }

func (c *candidate) waiting() string {
	return fmt.Sprintf("campaigning for %q; no command was running", c.run.Name)
}

// tellWaiting tells who leads, now and after every change, until ctx ends.
func (c *candidate) tellWaiting(ctx context.Context) {
	r := c.run
	for status, err := range c.election.Watch(ctx) {
		leader, leads := status.Holder()
		switch {
		case err != nil:
			r.Console.Notef("campaigning for %q: %v", r.Name, err)
		case leads && r.Servers.AreQuorum(): // does not know its waiters
			r.Console.Notef("campaigning for %q, led by %s", r.Name, lockstatus.Describe(leader, status.Key))
		case leads:
			r.Console.Notef("campaigning for %q, led by %s; %d waiting", r.Name, lockstatus.Describe(leader, status.Key), status.Waiting)
		}
	}
}
