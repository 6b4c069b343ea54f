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
				exit := exitcode.Errorf(exitcode.Signal+signals.Number(interrupt), "%s while %s", interrupt, s.waiting())
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
			case signals.Suspends(sig):
				signals.StopGroup()
			case signals.EndsProgram(sig) && interrupt == nil:
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
