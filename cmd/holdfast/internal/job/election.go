package job

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
)

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
