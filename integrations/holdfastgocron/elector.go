package holdfastgocron

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
)

// ErrNotLeader says that this scheduler does not lead, so that gocron skips the run.
var ErrNotLeader = errors.New("holdfastgocron: not the leader")

// Elector is a gocron.Elector, for gocron.WithDistributedElector: all jobs are run by the scheduler that leads.
type Elector struct {
	resign context.CancelFunc
	over   chan struct{} // closed when it campaigns no more
	err    error         // why; read after over
	term   atomic.Pointer[holdfast.Lease]
}

// NewElector returns an Elector that campaigns in an election until Close is called. A process needs one for all its
// schedulers.
func NewElector(e *election.Election) *Elector {
	ctx, cancel := context.WithCancel(context.Background())
	el := &Elector{resign: cancel, over: make(chan struct{})}
	go func() {
		defer close(el.over)
		el.err = e.Run(ctx, func(ctx context.Context, term *holdfast.Lease) error {
			el.term.Store(term)
			defer el.term.Store(nil)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	return el
}

// IsLeader returns nil if this scheduler leads now. Otherwise the error matches ErrNotLeader. It compares clocks and sends
// nothing, so a scheduler that was paused past its term does not begin a job. A job that has begun goes on when the term ends:
// give its work to a resource that compares fences, or use a Locker, if two runs at once would do harm.
func (e *Elector) IsLeader(context.Context) error {
	if term := e.term.Load(); term != nil {
		if err := term.Err(); err != nil {
			return fmt.Errorf("%w: %w", ErrNotLeader, err)
		}
		return nil
	}
	select {
	case <-e.over:
		return fmt.Errorf("%w, and does not campaign any more: %w", ErrNotLeader, e.err)
	default:
		return ErrNotLeader
	}
}

// Close resigns, and waits until the next candidate can lead. It may be called again. Shut the scheduler down before: its jobs
// run on.
func (e *Elector) Close() {
	e.resign()
	<-e.over
}
