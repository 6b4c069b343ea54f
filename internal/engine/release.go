package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// renewalGrace is how long, in addition to four round trips, a release waits for a renewal under way, so that it can pass the lock on after
// it.
const renewalGrace = 50 * time.Millisecond

// Release is holdfast.Lease.Release, except that a *LostError lacks the lease's fence.
func (l *holdLease) Release(ctx context.Context) error {
	return l.release(ctx, hasLeft)
}

// release is Release, with how a party ends. It ends the lease before it waits for anything.
func (l *holdLease) release(ctx context.Context, how ending) error {
	c := l.g.l.c
	c.Tasks.Begin() // Close waits until observers are told
	defer c.Tasks.End()
	first, done, err := l.giveUp(true, how)
	if done {
		l.flush()
		return err
	}
	if !isLimit(ctx) {
		return l.releaseAfter(ctx, first, how)
	}
	return c.releaseUntil(ctx, l.Name(), func(ctx context.Context) error { return l.releaseAfter(ctx, first, how) })
}

// isLimit reports whether a release is waited for only until ctx's deadline. A context that has ended sets no limit: the lock is released
// all the same.
func isLimit(ctx context.Context) bool {
	_, bounded := ctx.Deadline()
	return bounded && ctx.Err() == nil
}

// releaseUntil calls release and waits for it until ctx's deadline. After that, release goes on in the background.
func (c *Client) releaseUntil(ctx context.Context, name string, release func(context.Context) error) error {
	end, _ := ctx.Deadline()
	began := time.Now()
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
	over := make(chan error, 1)
	c.Tasks.Run(func() {
		defer cancel()
		over <- release(ctx)
	})
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
		select {
		case err := <-over: // release has returned, which cancels ctx
			return err
		default:
			if waited, usual := time.Since(began), c.Server.RTT.Mean(); waited < usual {
				return exec.EndedBy(ctx, &exec.Failure{Op: "release", Name: name, Server: c.Server.Addr(), Ambiguous: true,
					Err: fmt.Errorf("the server had %s to answer, and needs %s on average", waited.Round(time.Microsecond), usual.Round(time.Microsecond))})
			}
			return c.Server.Unheard(ctx, "release", name, began)
		}
	}
}

// releaseAfter completes a release once what giveUp waits for has happened. It has no time limit, and goes on after ctx has ended.
func (l *holdLease) releaseAfter(ctx context.Context, first prior, how ending) error {
	h := l.g
	c := h.l.c
	for patient := true; first != (prior{}); {
		if first.released != nil {
			<-first.released
			if err := l.releaseFailed(); err != nil {
				return err
			}
		} else {
			select {
			case <-first.landed:
			case <-time.After(4*c.Server.RTT.Mean() + renewalGrace):
				patient = false
			}
		}
		var done bool
		var err error
		if first, done, err = l.giveUp(patient, how); done {
			l.flush()
			return err
		}
	}
	tombstone := h.attempt.unanswered
	if h.attempt.ending == hasCountedDown {
		tombstone = max(tombstone, h.l.NotAfter()) // by which the server recognises a copy
	}
	reply, unanswered, err := h.giveBack(ctx, tombstone)
	return l.gaveBack(reply, unanswered, err)
}

// releaseFailed returns why another call's release failed; nil if it did not.
func (l *holdLease) releaseFailed() error {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	if l.released || l.releasing {
		return nil
	}
	return l.outcome
}

// releaseThen is Release, but returns at once and calls done, in any goroutine, with Release's result. If nobody is known to wait for the
// lock, and nobody observes it, releaseThen starts no goroutine.
func (l *holdLease) releaseThen(ctx context.Context, done func(error)) {
	h := l.g
	c := h.l.c
	first, finished, err := l.giveUp(true, hasLeft)
	p := h.attempt.freePath()
	switch {
	case finished:
		l.flush()
		done(err)
		return
	case first != (prior{}) || h.attempt.unanswered != 0 || p == nil:
		c.Tasks.Run(func() { done(l.releaseAfter(ctx, first, hasLeft)) })
		return
	}
	began := time.Now()
	h.attempt.freeThen(p, h.first.fence, func(freed, unanswered bool) {
		if freed && c.Config.Observer == nil { // an observer may take its time, or ask the server
			done(l.gaveBack(released, false, nil))
			return
		}
		c.Tasks.Run(func() {
			if freed {
				done(l.gaveBack(released, false, nil))
				return
			}
			reply, again, err := c.release(context.WithoutCancel(ctx), began, h.l, codec.Release{Token: h.attempt.Token(), Member: h.attempt.member}, h.attempt.ending)
			done(l.gaveBack(reply, unanswered || again, err))
		})
	})
}

// gaveBack records the outcome of the release, and returns the error for the caller.
func (l *holdLease) gaveBack(reply codec.Reply, unanswered bool, err error) error {
	err = l.noteOutcome(reply, unanswered, err)
	l.flush()
	if lost, is := err.(*lock.LostError); is && l.joint == nil && l.g.attempt.ending != unaware {
		l.g.l.c.LogLoss(l.g.l.subject(), l.fence, lost)
	}
	return err
}

func (l *holdLease) noteOutcome(reply codec.Reply, unanswered bool, err error) error {
	h := l.g
	if err != nil {
		h.attempt.Abandon()
	} else {
		h.attempt.forget(false)
	}
	h.uncount()

	h.mu.Lock()
	defer h.mu.Unlock()
	l.releasing, l.unsure, l.released = false, l.unsure || unanswered || err != nil, err == nil
	if l.answered != nil {
		close(l.answered)
		l.answered = nil
	}
	switch {
	case err != nil:
		l.outcome = err
	case reply.Word == codec.Released, reply.Word == codec.LeftQueue:
	case l.unsure:
		l.outcome = &exec.Failure{Op: "release", Name: l.Name(), Server: h.l.c.Server.Addr(), Ambiguous: true, Kind: exec.ErrUnavailable,
			Err: errors.New("an earlier try was not answered; the lock is no longer this lease's, which that try may have brought about")}
	default:
		l.outcome = h.missing(reply.Word)
	}
	l.endObserved(lock.HandoverNone, l.outcome)
	return l.outcome
}

// prior is what a release has to wait for: one of these channels to be closed, or nothing.
type prior struct {
	landed   <-chan struct{} // closed when no renewal is under way
	released <-chan struct{} // closed when another call's release has ended
}

// giveUp ends the lease and, if that is allowed, passes the lock on within the process; then the release is done. Otherwise the caller has
// to send the release or, if first is not zero, wait for first and call giveUp again. If patient is false, giveUp asks only for waits that
// cannot be avoided.
func (l *holdLease) giveUp(patient bool, how ending) (first prior, done bool, err error) {
	h := l.g
	h.queue.mu.Lock()
	defer h.queue.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	waited := h.queue.waiting.Load() > 0
	now := clock.Awake() // the server will say whether the lease was lost in a suspension
	if waited {
		now = clock.Now()
	}
	// mutants: look-at-release
	l.check(now)
	// mutants: lost-at-release
	if lost, ok := l.ended().(*lock.LostError); ok && h.state == over {
		return prior{}, true, lost
	}
	if l.leaving && h.state == over { // lost while it waited for a renewal
		l.released = true
		return prior{}, true, l.outcome
	}
	switch {
	case l.released && how != hasCountedDown:
		return prior{}, true, nil
	case l.released && h.attempt.ending != hasCountedDown:
		return prior{}, true, lock.ErrReleased
	case l.released:
		return prior{}, true, l.outcome
	}
	if l.releasing {
		if l.answered == nil {
			l.answered = make(chan struct{})
		}
		return prior{released: l.answered}, false, nil
	}
	if h.state != over && h.removeLease(l) { // also if the client closes
		l.leave(lock.HandoverNone)
		h.retireIfIdle()
		return prior{}, true, nil
	}
	// mutants: pass-on
	if waited && (!l.over || l.leaving && h.state != over && !h.expired(now)) {
		next := h.queue.successor(h, now)
		if next != nil && h.flying > 0 && patient {
			// The reply to a renewal under way must not reach the next lease.
			l.leaving = true
			l.end(lock.ErrReleased)
			if h.landed == nil {
				h.landed = make(chan struct{})
			}
			return prior{landed: h.landed}, false, nil
		}
		if next != nil && h.flying == 0 {
			l.leave(lock.HandoverLocal)
			h.passed++
			h.queue.pass(next, h.nextLease())
			return prior{}, true, nil
		}
	}
	l.end(lock.ErrReleased)
	l.leaving, l.releasing, l.outcome = false, true, nil
	if h.attempt.ending == unaware {
		h.attempt.ending = how
	}
	h.stop()
	h.queue.releaseLocked(h)
	return prior{}, false, nil
}
