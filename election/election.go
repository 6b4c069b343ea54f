// Package election elects one leader at a time among processes on any number of machines.
package election

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// Election chooses one leader at a time among the processes that call Run. The leader holds the election's lock; the others wait in its
// queue. The first of them leads when the leader resigns, or when its lease ends because it crashed or cannot reach the server.
type Election struct {
	handle
	lock *holdfast.Lock
	on   *engine.Electorate
}

type handle = printable.Handle[printable.Named]

// New returns the election whose leader holds the lock: a Mutex of any kind, the writer's side of an RWMutex, a Multi, or a quorum's mutex.
// With the permits of a Semaphore there can be several leaders. With readers or an OwnerMutex, using the election returns
// holdfast.ErrInvalid. The leader's lease has the options of the lock, except Wait: candidates wait until their contexts end. New sends
// nothing.
func New(lock *holdfast.Lock) *Election {
	on := access.Lock(lock).AsElection()
	own := access.NewLock(on.Lock, 0).(*holdfast.Lock)
	return &Election{printable.Name("election.Election", own), own, on}
}

// ErrResign is what lead returns to Run to give up its term and campaign again, behind the candidates that wait.
var ErrResign = errors.New("holdfast: leader resigns")

// Run campaigns and calls lead for each term, one term after another. lead's context is made from ctx and ends, with a cause, when the term
// does: at the lease's deadline at the latest, before any other process can lead. lead should return then; until it does, this process has
// no other term. term.Fence rises from term to term, and tells resources which of two leaders is the later.
//
// When lead has returned, Run releases the lease. What follows depends on lead's result, and on whether the term had been lost:
//
//	lead returns                        term not lost           term lost
//	ErrResign                           campaigns again         campaigns again
//	nil                                 returns nil             campaigns again
//	ErrLost or an error of a context    returns that error      campaigns again
//	another error                       returns that error      returns that error
//
// To have the leader resign from outside, end something that lead watches, and let lead return ErrResign. An operator's
// "holdfast revoke" reaches lead through term.Revoked.
//
// While the server is unavailable, Run keeps campaigning. It returns ctx's error once ctx has ended, unless lead returned another one, and
// errors of holdfast.Lock.Acquire that are permanent.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term *holdfast.Lease) error) error {
	for {
		led, returned, err := e.term(ctx, lead)
		switch {
		case !led && ctx.Err() != nil:
			return ctx.Err()
		case !led && e.mayPass(err):
			if err := e.pause(ctx); err != nil {
				return err
			}
			continue
		case !led:
			return err
		}
		lost := errors.Is(err, holdfast.ErrLost)
		again := campaignsAgain(returned, lost)
		if !again && err != nil && !lost {
			returned = errors.Join(returned, err)
		}
		if ctx.Err() != nil && (again || returned == nil || errors.Is(returned, ctx.Err())) {
			return ctx.Err()
		}
		if !again {
			return returned
		}
	}
}

// term campaigns, and leads for one term. It returns whether lead was called, what lead returned, and the error of the lock.
func (e *Election) term(ctx context.Context, lead func(ctx context.Context, term *holdfast.Lease) error) (led bool, returned, err error) {
	defer func() {
		if led { // watchers look again, now that the lock was released
			// mutants: announce-end
			e.on.Announce()
		}
	}()
	err = e.lock.Do(ctx, func(work context.Context, lease *holdfast.Lease) error {
		led = true
		e.on.Announce()
		returned = lead(work, lease)
		return nil
	})
	return led, returned, err
}

// campaignsAgain reports whether another term follows after lead has returned.
func campaignsAgain(returned error, lost bool) bool {
	return errors.Is(returned, ErrResign) || lost && (returned == nil || errors.Is(returned, holdfast.ErrLost) ||
		errors.Is(returned, context.Canceled) || errors.Is(returned, context.DeadlineExceeded))
}

// mayPass reports whether trying again may help.
func (e *Election) mayPass(err error) bool {
	return errors.Is(err, holdfast.ErrUnavailable) && e.on.MayPass(err)
}

// pause waits a moment after a temporary error.
func (e *Election) pause(ctx context.Context) error {
	select {
	case <-time.After(schedule.Jitter(500*time.Millisecond, 50)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.on.Client.Closing:
		return holdfast.ErrClosed
	}
}

// Leader returns who leads: one of the leaders if there are several, holdfast.ErrNotHeld if there is none. It changes nothing.
func (e *Election) Leader(ctx context.Context) (holdfast.Holder, error) {
	s, err := e.Status(ctx)
	if err != nil {
		return holdfast.Holder{}, err
	}
	leader, held := s.Holder()
	if !held {
		return leader, fmt.Errorf("%w: nobody leads %q", holdfast.ErrNotHeld, e.Name())
	}
	return leader, nil
}

// Watch yields the election's status, at once and whenever the leader changes, until ctx ends. The status has no holder when nobody leads.
// Leaders announce changes. Notifications can be lost, so Watch also looks every 30 s, and when the lease of a leader that it knows may
// have ended: it misses a crashed leader within the leader's TTL. Changes in quick succession may be seen as one. Leaders on a quorum
// announce nothing: there Watch looks once a second.
//
// Watch ends with a permanent error, which it yields, such as holdfast.ErrClosed when the client closes. It survives outages, even one that
// lasts when it begins; meanwhile the last status may be out of date.
func (e *Election) Watch(ctx context.Context) iter.Seq2[holdfast.Status, error] {
	return func(yield func(holdfast.Status, error) bool) {
		if err := e.watch(ctx, yield); err != nil && ctx.Err() == nil {
			yield(holdfast.Status{}, access.Error(err))
		}
	}
}

func (e *Election) watch(ctx context.Context, yield func(holdfast.Status, error) bool) error {
	for err := e.ready(ctx); err != nil; err = e.ready(ctx) {
		if !e.mayPass(err) {
			return err
		}
		if err := e.pause(ctx); err != nil {
			return err
		}
	}
	follower, err := e.on.Follow()
	if err != nil {
		return err
	}
	defer follower.Leave()
	var last *lock.Holder
	for first := true; ; {
		s, err := e.on.Status(ctx)
		seen, ttl := true, time.Duration(-1)
		switch own := access.Error(err); {
		case err != nil && !e.mayPass(own):
			return own
		case err != nil:
			seen = false
		default:
			var leader *lock.Holder
			if len(s.Holders) > 0 {
				leader, ttl = &s.Holders[0], s.Holders[0].TTL
			}
			changed := (last == nil) != (leader == nil) || last != nil && e.on.Differ(last, leader)
			if (first || changed) && !yield(e.statusOf(&s), nil) {
				return nil
			}
			first, last = false, leader
		}
		if err := follower.Wait(ctx, seen, ttl); err != nil {
			return err
		}
	}
}

func (e *Election) ready(ctx context.Context) error { return access.Error(e.on.Ready(ctx)) }

// Name returns the election's name, which is that of its lock.
func (e *Election) Name() string { return e.lock.Name() }

// Status returns who leads and who waits to lead; on a quorum the waiters are not known. It changes nothing.
func (e *Election) Status(ctx context.Context) (holdfast.Status, error) {
	s, err := e.on.Status(ctx)
	if err != nil {
		return holdfast.Status{}, access.Error(err)
	}
	return e.statusOf(&s), nil
}

func (e *Election) statusOf(s *lock.Status) holdfast.Status {
	own := access.Status(s).(holdfast.Status)
	if own.Kind == holdfast.KindMutex && !own.Held() && own.Waiting == 0 { // no leader or candidate names the kind
		own.Kind = holdfast.KindElection
	}
	return own
}
