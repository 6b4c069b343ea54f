package job

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
)

// A source is where a run gets leases from: a lock, the lock of a job that is completed once, or the terms of an
// election.
type source interface {
	acquire(ctx context.Context) (*holdfast.Lease, error)
	release(lease *holdfast.Lease) error
	// refused returns how to exit after acquire has failed.
	refused(ctx context.Context, err error) *exitcode.Error
	// tellWaiting says who holds what the run waits for.
	tellWaiting(ctx context.Context)
	// waiting says in a few words what an interrupt ends.
	waiting() string
}

// obtain returns a lease with enough time for a job, or how to exit without one. A lock that is handed over may have
// little time left at first, perhaps too little to end a command.
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
		exit = r.Failure(err)
		r.release(s, lease, exit)
		if !errors.Is(err, holdfast.ErrLost) {
			return nil, exit
		}
		r.Console.Detailf("%v, before the command could begin; trying again", err)
	}
}

// tellAfter is how long a wait on a terminal lasts before the run says what it waits for.
const tellAfter = time.Second

// acquire returns a lease, or how to exit without one. A signal ends the wait.
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
				exit := exitcode.Errorf(exitcode.Signal+signals.Number(interrupt), "%s while %s", interrupt, s.waiting())
				if got.lease != nil {
					r.release(s, got.lease, exit)
				}
				return nil, exit
			}
			if got.err != nil {
				if errors.Is(got.err, holdfast.ErrUnavailable) &&
					!errors.Is(got.err, holdfast.ErrQuarantine) && !errors.Is(got.err, holdfast.ErrReplicas) {
					r.closeTime = time.Second // the server is not likely to answer soon
				}
				return nil, s.refused(ctx, got.err)
			}
			return got.lease, nil
		case sig := <-r.signals:
			switch {
			case signals.Suspends(sig):
				signals.StopGroup()
			case signals.EndsProgram(sig) && interrupt == nil:
				interrupt = sig
				cancel()
			}
		case <-tell.C:
			if r.Console.Verbose() || console.IsTerminal(r.Streams.Err) {
				go s.tellWaiting(ctx)
			}
		}
	}
}
