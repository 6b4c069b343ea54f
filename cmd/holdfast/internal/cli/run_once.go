package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// job is that of --once. A run waits for another one for so long, if wait is not negative.
func (r *runner) job(wait time.Duration) *holdfast.Once {
	options := []holdfast.OnceOption{r.option()}
	if r.maxTries != 0 {
		options = append(options, holdfast.MaxTries(int(r.maxTries)))
	}
	if wait >= 0 {
		options = append(options, holdfast.Wait(wait))
	}
	return r.locks.clients[0].Once(r.name, r.window(), options...)
}

// window is that of --once.
func (o *runOptions) window() holdfast.Window {
	if o.onceKey != "" {
		return holdfast.Slot(o.onceKey, o.once)
	}
	return holdfast.Every(o.once)
}

// shift is a run of the job of --once: a call of Once.Do, whose function lasts for as long as the command.
type shift struct {
	leases  chan *holdfast.Lease // brings the lease, once the function is called
	results chan error           // takes what the function is to return
	over    chan struct{}        // closed when the call has returned
	done    holdfast.Completion  // what it returned
	err     error
}

// errNotRun is what a shift's function returns if the command does not succeed.
var errNotRun = errors.New("the command did not succeed")

// errDone says that the job was completed in its window already.
type errDone struct{ holdfast.Completion }

func (errDone) Error() string { return "the job is done already" }

// begin begins a shift, and returns its lease; errDone if the job is done already.
func (r *runner) begin(ctx context.Context) (*holdfast.Lease, error) {
	s := &shift{leases: make(chan *holdfast.Lease), results: make(chan error), over: make(chan struct{})}
	job := r.job(r.patience())
	go func() {
		defer close(s.over)
		s.done, s.err = job.Do(ctx, func(_ context.Context, lease *holdfast.Lease) (string, error) {
			s.leases <- lease
			return "", <-s.results
		})
	}()
	select {
	case lease := <-s.leases:
		r.shift = s
		return lease, nil
	case <-s.over:
		if s.err == nil {
			return nil, errDone{s.done}
		}
		return nil, s.err
	}
}

// end ends the shift, which releases the lock.
func (s *shift) end(result error) {
	s.results <- result
	<-s.over
}

// notBegun says how to exit if the job of --once is not to be run; nil if that is not why.
func (r *runner) notBegun(err error) *exitError {
	var done errDone
	switch {
	case errors.As(err, &done):
		r.report.Outcome = outcomeDone
		r.report.Run = newPastRun(done.Completion)
		r.voice.tell("%s already; the command was not run", r.completion(done.Completion))
		return &exitError{0, nil}
	case errors.Is(err, holdfast.ErrOnceExhausted):
		r.report.Outcome = outcomeTries
		return &exitError{exitTries, fmt.Errorf("%w (--max-tries); the command was not run", err)}
	}
	return nil
}

// complete has it recorded that the command succeeded, and releases the lock. That is tried until the lease ends, or a
// signal asks holdfast to end.
func (r *runner) complete(lease *holdfast.Lease) *exitError {
	s := r.shift
	r.shift = nil
	ctx, stop := interruptible(context.Background())
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = lease.Release(context.Background()) })()
	s.end(nil)
	switch {
	case s.err == nil || s.done.Here:
		r.report.Run = newPastRun(s.done)
		r.voice.tell("job %q is done, in try %d", r.name, s.done.Try)
		return &exitError{}
	case errors.Is(s.err, holdfast.ErrLost):
		r.report.Outcome = outcomeLost
		return &exitError{r.lostCode, fmt.Errorf("%w; the command had succeeded by then, which does not count: it may be run again", s.err)}
	}
	return &exitError{failure(s.err).code, fmt.Errorf("the command has succeeded, but that was not recorded, so that it may be run again: %w", s.err)}
}
