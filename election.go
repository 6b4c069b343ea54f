package holdfast

import (
	"context"
	"errors"
	"iter"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Election chooses one leader at a time among the processes that call Run. The leader holds the Mutex of the election's
// name; the others wait in its queue, and the first of them leads when the leader resigns, or when its lease ends because it
// crashed or cannot reach the server.
type Election struct {
	e *engine.Election
}

// Election returns the election of that name, which chooses one leader at a time. Its options are those of the leader's
// lease.
func (c *Client) Election(name string, opts ...ElectionOption) *Election {
	return &Election{c.e.Election(name, resolve(c.queued, opts).given...)}
}

// ErrResign is what lead returns to Election.Run to give up its term and campaign again, behind the candidates that wait.
var ErrResign = errors.New("holdfast: leader resigns")

// Run campaigns and calls lead for each term, one term after another. lead's context is made from ctx and ends, with a
// cause, when the term does: at the lease's deadline at the latest, before anybody else can lead. lead should return then;
// there is no other term before it does. term.Fence rises from term to term, and tells resources which of two leaders is the
// later.
//
// Run campaigns again after ErrResign; and, if the term was lost, after nil, ErrLost or a context's error. Any other return
// of lead ends Run, which returns it, even if it is nil; the lease is released then. Run goes on campaigning while the server is
// unavailable. It returns ctx's error when ctx ends, and an error of Lock.Acquire that would not pass.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term *Lease) error) error {
	return leave(e.e.Run(ctx, func(_ context.Context, term engine.Lease) error {
		lease := &Lease{term}
		work, end := lease.scope(ctx)
		defer end(ErrReleased)
		return lead(work, lease)
	}, campaignsAgain))
}

// campaignsAgain says whether there is another term after lead has returned.
func campaignsAgain(returned error, lost bool) bool {
	return errors.Is(returned, ErrResign) || lost && (returned == nil || errors.Is(returned, ErrLost) ||
		errors.Is(returned, context.Canceled) || errors.Is(returned, context.DeadlineExceeded))
}

// Leader says who leads; ErrNotHeld if nobody does. It changes nothing.
func (e *Election) Leader(ctx context.Context) (Holder, error) {
	h, err := e.e.Leader(ctx)
	return holder(h), leave(err)
}

// Watch yields the election's status, at once and whenever the leader changes, until ctx ends; it has no holder when nobody
// leads. Leaders announce changes; Watch looks for itself when the lease of a leader that it knows may have ended, so that
// one that crashed is missed within its TTL, and every 30 s, since notifications can be lost. Changes that follow each other
// closely may be seen as one. Of a Quorum it looks once a second.
//
// It ends with a permanent error, which it yields: ErrClosed, when the client closes. It survives outages, even one in
// which it begins; what it yielded last may be out of date meanwhile.
func (e *Election) Watch(ctx context.Context) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		for s, err := range e.e.Watch(ctx) {
			if err != nil {
				yield(Status{}, leave(err))
				return
			}
			if !yield(newStatus(&s), nil) {
				return
			}
		}
	}
}

// Name returns the election's name.
func (e *Election) Name() string { return e.e.Lock().Name() }

// Status says who leads and who waits to. It changes nothing.
func (e *Election) Status(ctx context.Context) (Status, error) { return statusOf(ctx, e.e) }

// String names the election, for people.
func (e *Election) String() string { return named("Election", e.Name()) }
