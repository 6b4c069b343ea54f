package engine

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// Election chooses one leader at a time among its candidates on all machines. The leader holds the Mutex of the election's
// name; the other candidates wait in its queue. The first of them becomes the leader if the leader resigns, or if its lease
// ends because it crashed or cannot reach the server.
type Election struct {
	lock   Lock
	ground Ground
}

// Ground is where an election is held: on one server, or on a quorum.
type Ground interface {
	Ready(ctx context.Context) error
	MayPass(err error) bool  // whether to campaign again after an Acquire returned err
	IsOutage(err error) bool // whether looking again may help after a look returned err
	Announce()               // makes watchers look, in the background
	Differ(a, b *Holder) bool
	// Follow returns the function with which Watch waits for a reason to look again, like watcher.wait, until stop.
	Follow() (wait func(ctx context.Context, seen bool, ttl time.Duration) error, stop func(), err error)
	Closing() <-chan struct{}
}

// NewElection returns an election whose leader holds a lock, on a ground of another package.
func NewElection(lock Lock, ground Ground) *Election { return &Election{lock, ground} }

// Election returns the election of that name. Its options are those of the leader's lease.
func (c *Client) Election(name string, opts ...Option) *Election {
	given := append([]Option{func(s *settings) { s.apart, s.seenAs = true, SeenAsElection }}, opts...)
	l := c.newLock(name, given)
	return &Election{l, serverGround{l}}
}

// Lock returns the lock that the leader holds.
func (e *Election) Lock() Lock { return e.lock }

// Run campaigns and calls lead once for each term it wins, until ctx ends or lead returns for a reason other than the end
// of its term. The context that lead gets ends, with a cause, when the term does: at the lease's deadline at the latest,
// which is before anyone else can lead. lead should return then; the next term does not begin before it does. term.Token
// rises from term to term and tells resources which of two leaders is the later one.
//
// Run campaigns again if again returns true, given lead's error and whether the term was lost, and while the server is
// unavailable. It returns ctx.Err() if ctx ended; otherwise what lead returned, even nil; or an error of Acquire that
// campaigning again would not clear. By then the lease is released, and the next candidate leads.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term Lease) error, again func(err error, lost bool) bool) error {
	for {
		term, err := e.lock.Acquire(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return ctx.Err()
		case err != nil && !e.ground.MayPass(err):
			return err
		case err != nil:
			if err := e.pause(ctx); err != nil {
				return err
			}
			continue
		}
		more, err := e.serve(ctx, term, lead, again)
		if ctx.Err() != nil && (more || err == nil || errors.Is(err, ctx.Err())) {
			return ctx.Err()
		}
		if !more {
			return err
		}
	}
}

// serve calls lead for one term. more reports whether there may be another.
func (e *Election) serve(ctx context.Context, term Lease, lead func(context.Context, Lease) error, again func(error, bool) bool) (more bool, err error) {
	e.ground.Announce()
	// mutants: announce-end
	defer e.ground.Announce()
	released := do(ctx, term, func(ctx context.Context) error {
		err = lead(ctx, term)
		return nil
	})
	lost := errors.Is(released, ErrLost)
	if again(err, lost) {
		return true, err
	}
	if released != nil && !lost {
		err = errors.Join(err, released)
	}
	return false, err
}

// pause waits for a moment after a transient error.
func (e *Election) pause(ctx context.Context) error {
	select {
	case <-time.After(schedule.Jitter(500*time.Millisecond, 50)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.ground.Closing():
		return exec.ErrClosed
	}
}

// Status returns the leader and the candidates.
func (e *Election) Status(ctx context.Context) (Status, error) {
	s, err := e.lock.Status(ctx)
	if len(s.Holders) == 0 && s.Waiting == 0 { // no leader or candidate names the kind
		s.Form = SeenAsElection
	}
	return s, err
}

// Leader returns the leader, or ErrNotHeld if there is none. It changes nothing.
func (e *Election) Leader(ctx context.Context) (Holder, error) {
	s, err := e.Status(ctx)
	if err != nil {
		return Holder{}, err
	}
	return s.Holder()
}

// Watch yields the election's status at once and whenever the leader changes. Leaders notify it of changes. It also
// looks when the known leader's lease may have ended, so a crashed leader is missed within its TTL, and every 30 s, since
// notifications can be lost. Changes in quick succession may be seen as one.
//
// It ends when ctx does, or after yielding an error that looking again would not clear: ErrClosed if the client is closed.
// It survives outages, even one that it begins in; during an outage, the leader it yielded last may no longer lead.
func (e *Election) Watch(ctx context.Context) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		for err := e.ground.Ready(ctx); err != nil; err = e.ground.Ready(ctx) {
			if e.ground.IsOutage(err) {
				err = e.pause(ctx)
			}
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				yield(Status{}, err)
				return
			}
		}
		wait, stop, err := e.ground.Follow()
		if err != nil {
			yield(Status{}, err)
			return
		}
		defer stop()
		var last *Holder
		for first := true; ; {
			s, err := e.Status(ctx)
			seen, ttl := true, time.Duration(-1)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && !e.ground.IsOutage(err):
				yield(Status{}, err)
				return
			case err != nil:
				seen = false
			default:
				var leader *Holder
				if len(s.Holders) > 0 {
					leader, ttl = &s.Holders[0], s.Holders[0].TTL
				}
				changed := (last == nil) != (leader == nil) || last != nil && e.ground.Differ(last, leader)
				if (first || changed) && !yield(s, nil) {
					return
				}
				first, last = false, leader
			}
			if err := wait(ctx, seen, ttl); err != nil {
				if ctx.Err() == nil {
					yield(Status{}, err)
				}
				return
			}
		}
	}
}

// serverGround is an election on one server.
type serverGround struct{ l *target }

func (g serverGround) Ready(ctx context.Context) error { return g.l.ready(ctx) }

func (g serverGround) MayPass(err error) bool {
	kind := exec.KindOf(err)
	return exec.Passing(kind) || kind == exec.ErrQuarantine || kind == exec.ErrReplicas
}

func (g serverGround) IsOutage(err error) bool { return exec.Passing(exec.KindOf(err)) }

// Announce drops its errors: watchers look from time to time anyway.
func (g serverGround) Announce() {
	l := g.l
	channel := l.c.watchChannelOf(l).Name
	l.c.tasks.Run(func() {
		_, _ = exec.Try(context.Background(), l.c.server, l.c.cfg.CommandTimeout, func(ctx context.Context) (answer[codec.AnnounceReply], error) {
			return askOnce(ctx, l.c, request{op: "announce", lock: l}, &codec.Announce{Lock: l.ref(), Channel: channel})
		})
	})
}

func (g serverGround) Differ(a, b *Holder) bool { return a.Grant != b.Grant || a.Foreign != b.Foreign }

func (g serverGround) Follow() (wait func(context.Context, bool, time.Duration) error, stop func(), err error) {
	w, err := g.l.c.watch(g.l)
	if err != nil {
		return nil, nil, err
	}
	return w.wait, w.leave, nil
}

func (g serverGround) Closing() <-chan struct{} { return g.l.c.closing }
