package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// window is that of --once.
func (o *runOptions) window() holdfast.Window {
	if o.onceKey != "" {
		return holdfast.SlotKey(o.onceKey, o.once)
	}
	return holdfast.Every(o.once)
}

func (o *runOptions) tries() []holdfast.Option {
	if o.maxTries == 0 {
		return nil
	}
	return []holdfast.Option{holdfast.MaxTries(int(o.maxTries))}
}

// doneAlready says how to exit when the job of --once was completed in its window.
func (r *runner) doneAlready(ctx context.Context) *exitError {
	if r.job == nil {
		return nil
	}
	err := r.job.Check(ctx)
	if err == nil {
		return nil
	}
	return r.notBegun(err)
}

// begin counts a try of the job of --once, or says how to exit when there is to be none; the
// lock is released then.
func (r *runner) begin(ctx context.Context, lease *holdfast.Lease) *exitError {
	if r.job == nil {
		return nil
	}
	err := r.job.Begin(ctx, lease)
	if err == nil {
		return nil
	}
	r.release(lease)
	return r.notBegun(err)
}

func (r *runner) notBegun(err error) *exitError {
	var done *holdfast.DoneError
	switch {
	case errors.As(err, &done):
		r.report.Outcome = outcomeDone
		r.report.Run = newPastRun(done.Run)
		r.voice.tell("%s already; the command was not run", r.completion(done.Run))
		return &exitError{0, nil}
	case errors.Is(err, holdfast.ErrTries):
		r.report.Outcome = outcomeTries
		return &exitError{exitTries, fmt.Errorf("%w (--max-tries); the command was not run", err)}
	}
	return r.failure(err)
}

// complete has it written down that the command succeeded, if it did. That is tried until the lease ends, or a
// signal asks holdfast to end.
func (r *runner) complete(exit *exitError, lease *holdfast.Lease) *exitError {
	if r.job == nil || exit.code != 0 || exit.err != nil {
		return exit
	}
	ctx, stop := interruptible(context.Background())
	defer stop()
	run, err := r.job.Complete(ctx, lease, "")
	if err == nil {
		r.report.Run = newPastRun(run)
		r.voice.tell("job %q is done, in try %d", r.name, run.Try)
		return exit
	}
	if errors.Is(err, holdfast.ErrLost) {
		r.report.Outcome = outcomeLost
		return &exitError{r.lostCode, fmt.Errorf("%w; the command had succeeded by then, which does not count: it may be run again", err)}
	}
	return &exitError{failure(err).code, fmt.Errorf("the command has succeeded, but that was not written down, so that it may be run again: %w", err)}
}
