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

// Election chooses one leader at a time among the processes that call Run. The leader holds the election's lock; the others wait in
// its queue, and the first of them leads when the leader resigns, or when its lease ends because it crashed or cannot reach the server.
type Election struct {
	handle
	lock *holdfast.Lock
	on   engine.Electorate
}

type handle = printable.Handle[printable.Named]

// New returns the election whose leader holds the lock: a Mutex of any kind, the writer's side of an RWMutex, a Multi, or a
// quorum's mutex. With the permits of a Semaphore there are several leaders. Readers, and an OwnerMutex, are
// holdfast.ErrInvalid when the election is used. The options of the leader's lease are the lock's, but for Wait: candidates
// wait as long as their contexts. Nothing is sent.
func New(lock *holdfast.Lock) *Election {
	on := access.Lock(lock).(engine.Electoral).AsElection()
	own := access.NewLock(on, 0).(*holdfast.Lock)
	return &Election{printable.Name("election.Election", own), own, on}
}

// ErrResign is what lead returns to Run to give up its term and campaign again, behind the candidates that wait.
var ErrResign = errors.New("holdfast: leader resigns")

// Run campaigns and calls lead for each term, one term after another. lead's context is made from ctx and ends, with a
// cause, when the term does: at the lease's deadline at the latest, before anybody else can lead. lead should return then;
// there is no other term before it does. term.Fence rises from term to term, and tells resources which of two leaders is the
// later.
//
// Run campaigns again after ErrResign; and, if the term was lost, after nil, holdfast.ErrLost or a context's error. Any other return
// of lead ends Run, which returns it, even if it is nil; the lease is released then. Run goes on campaigning while the server is
// unavailable. It returns ctx's error when ctx ends, and an error of holdfast.Lock.Acquire that would not pass.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term *holdfast.Lease) error) error {
	for {
		t := term{e: e, lead: lead}
		err := t.run(ctx)
		switch {
		case !t.led && ctx.Err() != nil:
			return ctx.Err()
		case !t.led && e.mayPass(err):
			if err := e.pause(ctx); err != nil {
				return err
			}
			continue
		case !t.led:
			return err
		}
		lost := errors.Is(err, holdfast.ErrLost)
		again := campaignsAgain(t.returned, lost)
		if !again && err != nil && !lost {
			t.returned = errors.Join(t.returned, err)
		}
		if ctx.Err() != nil && (again || t.returned == nil || errors.Is(t.returned, ctx.Err())) {
			return ctx.Err()
		}
		if !again {
			return t.returned
		}
	}
}

// term is a term of this process as the leader.
type term struct {
	e        *Election
	lead     func(ctx context.Context, term *holdfast.Lease) error
	led      bool // lead was called
	returned error
}

// run campaigns, and leads for one term. It returns the error of the lock.
func (t *term) run(ctx context.Context) error {
	// mutants: announce-end
	defer t.announceEnd()
	return t.e.lock.Do(ctx, func(work context.Context, lease *holdfast.Lease) error {
		t.led = true
		t.e.on.Announce()
		t.returned = t.lead(work, lease)
		return nil
	})
}

// announceEnd makes watchers look once the lock is released, if this process led.
func (t *term) announceEnd() {
	if t.led {
		t.e.on.Announce()
	}
}

// campaignsAgain reports whether there is another term after lead has returned.
func campaignsAgain(returned error, lost bool) bool {
	return errors.Is(returned, ErrResign) || lost && (returned == nil || errors.Is(returned, holdfast.ErrLost) ||
		errors.Is(returned, context.Canceled) || errors.Is(returned, context.DeadlineExceeded))
}

// mayPass reports whether trying again may help.
func (e *Election) mayPass(err error) bool {
	return errors.Is(err, holdfast.ErrUnavailable) && e.on.MayPass(err)
}

// pause waits for a moment after an error that may pass.
func (e *Election) pause(ctx context.Context) error {
	select {
	case <-time.After(schedule.Jitter(500*time.Millisecond, 50)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.on.Closing():
		return holdfast.ErrClosed
	}
}

// Leader says who leads, one of them if there are several; holdfast.ErrNotHeld if nobody does. It changes nothing.
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

// Watch yields the election's status, at once and whenever the leader changes, until ctx ends; it has no holder when nobody
// leads. Leaders announce changes; Watch looks for itself when the lease of a leader that it knows may have ended, so that
// one that crashed is missed within its TTL, and every 30 s, since notifications can be lost. Changes that follow each other
// closely may be seen as one. Leaders on a quorum do not announce themselves: there it looks once a second.
//
// It ends with a permanent error, which it yields: holdfast.ErrClosed, when the client closes. It survives outages, even one in
// which it begins; what it yielded last may be out of date meanwhile.
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

// Status says who leads and who waits to; on a quorum nobody knows who waits. It changes nothing.
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
