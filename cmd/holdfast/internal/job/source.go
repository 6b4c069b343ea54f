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
	// do waits for a lease, calls use with it, and returns use's error, or why it got no lease. If use returns election.ErrResign, the source
	// may call use again, with another lease, before it returns.
	do(ctx context.Context, use func(*holdfast.Lease) error) error
	// refused returns the exit code after do has failed without a lease.
	refused(ctx context.Context, err error) *exitcode.Error
	// tellWaiting tells the user who holds what the run waits for.
	tellWaiting(ctx context.Context)
	// waiting says in a few words what a signal interrupts.
	waiting() string
}

// errOver tells a source that the run needs no other lease, and that the job is not to be recorded as completed.
var errOver = errors.New("the run is over")

// runJob runs the job under a lease of s, and once more under another for as long as again returns true. It calls again with the exit code,
// and with whether a signal asked holdfast to end. A signal also ends the wait for a lease.
func (r *Run) runJob(ctx context.Context, s source, j *Job, began time.Time, again func(*exitcode.Error, bool) bool) *exitcode.Error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.awaitKeeper()
	var exit *exitcode.Error // nil while the run waits
	w := r.wait(ctx, cancel, s)
	o, isOnce := s.(*onceLock)
	use := func(lease *holdfast.Lease) error {
		interrupt := w.end()
		r.report.Waited = time.Since(began).Milliseconds()
		if interrupt != nil {
			r.report.Outcome, exit = Interrupted, exitcode.Interrupted(interrupt, "while "+s.waiting(), nil)
			r.release(lease, exit)
			return errOver
		}
		more := false
		if err := lengthen(ctx, lease, j.TTL); err != nil {
			exit = r.failure(err)
			r.release(lease, exit)
			if more = errors.Is(err, holdfast.ErrLost); more {
				r.Console.Detailf("%v, before the command could begin; trying again", err)
			}
		} else {
			var ended bool
			exit, ended = r.hold(j, lease, isOnce)
			if isOnce && exit.Code == 0 && exit.Err == nil {
				return nil
			}
			more, began = again(exit, ended), time.Now()
		}
		if !more {
			return errOver
		}
		exit, w = nil, r.wait(ctx, cancel, s)
		return election.ErrResign
	}
	err := s.do(ctx, use)
	for errors.Is(err, election.ErrResign) && exit == nil {
		err = s.do(ctx, use)
	}
	switch {
	case exit == nil:
		interrupt := w.end()
		r.report.Waited = time.Since(began).Milliseconds()
		if interrupt != nil {
			r.report.Outcome = Interrupted
			return exitcode.Interrupted(interrupt, "while "+s.waiting(), err)
		}
		if errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, holdfast.ErrQuarantine) && !errors.Is(err, holdfast.ErrReplicas) {
			r.closeTime = time.Second // the server is unlikely to answer soon
		}
		return s.refused(ctx, err)
	case isOnce && exit.Code == 0 && exit.Err == nil:
		return o.completed(err, j.LostCode)
	}
	return exit
}

// lengthen extends a lease that was handed over, and may be too short to end a command in time.
func lengthen(ctx context.Context, lease *holdfast.Lease, ttl time.Duration) error {
	if time.Until(lease.Deadline()) >= ttl/2 {
		return nil
	}
	return lease.Extend(ctx, ttl)
}

// wait is a wait for a lease. It handles signals until end is called, and tells the user what the run waits for.
type wait struct {
	stop      context.CancelFunc
	over      chan struct{}
	interrupt os.Signal // the signal that asked the program to end; nil if none did
}

// tellAfter is how long a run waits, on a terminal, before it says what for.
const tellAfter = time.Second

func (r *Run) wait(ctx context.Context, cancel context.CancelFunc, s source) *wait {
	r.closeTime = connect.CloseTime
	w := &wait{over: make(chan struct{})}
	ctx, w.stop = context.WithCancel(ctx)
	go func() {
		defer close(w.over)
		tell := time.NewTimer(tellAfter)
		defer tell.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case sig := <-r.signals:
				if sig == terminal.Suspend {
					terminal.StopGroup()
				}
				if terminal.EndsProgram(sig) {
					w.interrupt = sig
					cancel()
				}
			case <-tell.C:
				if r.Console.Level() == console.Verbose || console.IsTerminal(r.Streams.Err) {
					go s.tellWaiting(ctx)
				}
			}
		}
	}()
	return w
}

// end ends the wait, and returns the signal that interrupted it, or nil.
func (w *wait) end() os.Signal {
	w.stop()
	<-w.over
	return w.interrupt
}

// onceLock is the source of the lease of a job that is completed once in a window.
type onceLock struct {
	*Lock
	run once.Completion
}

// errCompleted says that the job was completed before this run.
var errCompleted = errors.New("the job is completed already")

// do calls use at most once. If use returns nil, do records the completion, and retries that until the lease ends or a signal asks holdfast
// to end.
func (o *onceLock) do(ctx context.Context, use func(*holdfast.Lease) error) (err error) {
	used, stop := false, func() {}
	defer func() { stop() }()
	o.run, err = o.Once(o.Wait.option(o.Began)).Do(ctx, func(_ context.Context, lease *holdfast.Lease) (string, error) {
		used = true
		if err := use(lease); err != nil {
			return "", err
		}
		signalled, end := terminal.Context(context.Background())
		unhook := context.AfterFunc(signalled, func() { _ = lease.Release(context.Background()) })
		stop = func() { unhook(); end() }
		return "", nil
	})
	if !used && err == nil {
		return errCompleted
	}
	return err
}

func (o *onceLock) refused(ctx context.Context, err error) *exitcode.Error {
	r := o.Run
	switch {
	case errors.Is(err, errCompleted):
		r.report.Outcome = Done
		r.report.Run = NewPastRun(o.run)
		r.tellf("%s; the command was not run", DescribeRun(r.Name, o.run))
		return &exitcode.Error{}
	case errors.Is(err, once.ErrExhausted):
		r.report.Outcome = Tries
		return exitcode.Errorf(exitcode.Tries, "%w (on %s); the command was not run; find out why the tries failed, and raise --max-tries for another", err, r.Servers.Addr())
	}
	return o.Lock.refused(ctx, err)
}

// completed returns the exit code of a command that succeeded. err says why that was not recorded, or is nil.
func (o *onceLock) completed(err error, lostCode int) *exitcode.Error {
	r := o.Run
	var lost *holdfast.LostError
	switch {
	case err == nil || o.run.Here:
		r.report.Run = NewPastRun(o.run)
		r.Console.Detailf("job %q is completed, on try %d", r.Name, o.run.Try)
		return &exitcode.Error{}
	case errors.As(err, &lost):
		r.report.Outcome = Lost
		return exitcode.Errorf(lostCode, "%w; the command succeeded, but too late to count, so it may run again", lost)
	}
	return exitcode.Errorf(exitcode.OfLibrary(err).Code,
		"the command succeeded, but this could not be recorded, so it may run again: %w", err)
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
	return r.runJob(ctx, &candidate{r, election}, j, time.Now(), func(exit *exitcode.Error, ended bool) bool {
		r.report.Terms++
		if ended || r.report.Terms == terms.Most || !terms.continues(r.report.Outcome, exit.Code) {
			return false
		}
		if exit.Err != nil {
			r.Console.Error(fmt.Errorf("%w; campaigning again", exit.Err))
		} else {
			r.Console.Detailf("the command ended with exit code %d; campaigning again", exit.Code)
		}
		r.report.Error = ""
		return true
	})
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
	run      *Run
	election *election.Election
}

// termPause is the minimum time between the beginnings of two terms, so that a command that fails at once is not restarted in a tight loop.
const termPause = time.Second

func (c *candidate) do(ctx context.Context, use func(*holdfast.Lease) error) error {
	return c.election.Run(ctx, func(_ context.Context, term *holdfast.Lease) error {
		elected := time.Now()
		err := use(term)
		if errors.Is(err, election.ErrResign) {
			select {
			case <-time.After(time.Until(elected.Add(termPause))):
			case <-ctx.Done():
			}
		}
		return err
	})
}

func (c *candidate) refused(_ context.Context, err error) *exitcode.Error { return c.run.failure(err) }

func (c *candidate) waiting() string {
	return fmt.Sprintf("campaigning for %q on %s; no command was running", c.run.Name, c.run.Servers.Addr())
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
			r.Console.Notef("campaigning for %q, led by %s", r.Name, lockstatus.Describe(leader))
		case leads:
			r.Console.Notef("campaigning for %q, led by %s; %d waiting", r.Name, lockstatus.Describe(leader), status.Waiting)
		}
	}
}
