package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// maxPassing bounds how long after its grant a lock is passed on within one process while other processes may be waiting for it. A process
// that stalls for less keeps its turn: otherwise its goroutines would have to queue again.
const maxPassing = 100 * time.Millisecond

// holdLease is one lease of a hold. It is safe for concurrent use.
type holdLease struct {
	g     *hold
	fence uint64

	// Guarded by g.mu.
	depth     int32    // how many leases of this lock it is nested in
	over      bool     // the lease has ended
	released  bool     // nothing is left to release
	releasing bool     // the release is under way
	part      bool     // the lease is part of a JointLease
	loss      error    // why the lease ended; nil if it has not, or if it was released
	trouble   *trouble // trouble with the release; nil if there is none

	// Who is told when it ends.
	ctx      context.Context // ends with the lease; nil until somebody asks for it
	cancel   context.CancelCauseFunc
	calls    calls
	revoked  func(wire.Remark) // called when the holder is asked to let go; or nil
	observed *observation      // what observers are told of the lease; nil if there are none
}

// ended returns nil while the lease is held, and then why it ended. The caller holds l.g.mu.
func (l *holdLease) ended() error {
	switch {
	case !l.over:
		return nil
	case l.loss != nil:
		return l.loss
	}
	return lock.ErrReleased
}

// trouble is the state of a release that is called twice, or fails.
type trouble struct {
	leaving  bool          // the release has ended the lease, and may still pass the lock on
	answered chan struct{} // closed when the release under way is answered; nil if nobody waits for that
	unsure   bool          // an unanswered release may have been carried out
	failed   error         // the latest release's error; nil if that was answered
	missed   error         // the release's error if the server no longer knew the lease
}

// troubled returns l.trouble, and makes it if it is nil. The caller holds l.g.mu.
func (l *holdLease) troubled() *trouble {
	if l.trouble == nil {
		l.trouble = &trouble{}
	}
	return l.trouble
}

// isLeaving reports whether a release has ended the lease and waits for a renewal, after which it may pass the lock on. The caller holds
// l.g.mu.
func (l *holdLease) isLeaving() bool { return l.trouble != nil && l.trouble.leaving }

// Name implements Lease.
func (l *holdLease) Name() string { return l.g.l.Name() }

// Owner implements Lease.
func (l *holdLease) Owner() string { return l.g.l.Set.Owner }

// Token implements Lease.
func (l *holdLease) Token() uint64 { return l.fence }

// Tokens implements Lease.
func (l *holdLease) Tokens() map[string]uint64 { return map[string]uint64{l.Name(): l.fence} }

// IsShared implements Lease. An owner's leases have the same fence, too, but only one owner.
func (l *holdLease) IsShared() bool { return l.g.l.Set.Kind.Joinable }

// Deadline implements Lease.
func (l *holdLease) Deadline() time.Time {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	return l.g.deadline(clock.Now())
}

// Err implements Lease.
func (l *holdLease) Err() error { return l.errAt(clock.Now()) }

// errAt is Err at now, a reading of the clocks from a moment ago.
func (l *holdLease) errAt(now clock.Instant) error {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.check(now)
	return l.ended()
}

// check ends the lease if its deadline has passed. The caller holds l.g.mu.
func (l *holdLease) check(now clock.Instant) {
	// mutants: deadline-by-clock
	if !l.over && l.g.expired(now) {
		l.g.lose(l.g.expiry())
	}
}

// Context implements Lease.
func (l *holdLease) Context() context.Context {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(Within(context.Background(), l))
		l.check(clock.Now())
		if l.over {
			l.cancel(l.ended())
		}
	}
	return l.ctx
}

// whenEnded calls f with the lease's error when the lease ends, or now if it has ended, and revoked when the holder is asked to let go. f
// must not block. A JointLease calls whenEnded for its parts, which have no contexts of their own.
func (l *holdLease) whenEnded(f context.CancelCauseFunc, revoked func(wire.Remark)) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.part = true
	if l.over {
		f(l.ended())
		return
	}
	l.cancel, l.revoked = f, revoked
}

// end ends the lease; further calls do nothing. The caller holds l.g.mu.
func (l *holdLease) end(err error) {
	if lost, is := err.(*lock.LostError); is && l.isLeaving() {
		l.troubled().missed = lost
	}
	if l.over {
		return
	}
	l.over = true
	if err != lock.ErrReleased {
		l.loss = err
	}
	if l.cancel != nil {
		l.cancel(err)
	}
	l.calls.make(err)
}

// leave ends the lease as released: nothing is left to release. to is how the lock was handed over. The caller holds l.g.mu.
func (l *holdLease) leave(to lock.Handover) {
	l.end(lock.ErrReleased)
	l.endObserved(to, nil)
	l.released = true
}

// checkTerm returns an error if ttl is not between 1 ms and MaxTTL. what names the operation in that error.
func (c *Client) checkTerm(what, name string, ttl time.Duration) error {
	if most := c.Config.MaxTTL; ttl < time.Millisecond || ttl > most {
		return fmt.Errorf("%w: lock %q: %s %s; from 1ms to %s is allowed", lock.ErrInvalid, name, what, ttl, most)
	}
	return nil
}

// Extend implements Lease.
func (l *holdLease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := l.g.l.c.checkTerm("Extend by", l.Name(), ttl); err != nil {
		return err
	}
	h := l.g
	h.l.c.Tasks.Begin() // Close waits until observers are told
	defer h.l.c.Tasks.End()
	if err := l.Err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	h.mu.Lock()
	if l.over {
		defer h.mu.Unlock()
		return l.ended()
	}
	ttl, final := h.renewTTL(ttl)
	// Set this whatever the answer will be: a lock that the server may keep for so long must not be passed on.
	// mutants: extension-asked
	h.extended = h.extended || ttl > h.l.Set.TTL
	h.mu.Unlock()
	a, err := h.keepFor(ctx, "renew", ttl, false)
	if err != nil {
		return err
	}
	defer h.flush(nil)
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.over || h.state == over {
		return l.ended()
	}
	if h.state == changing {
		return fmt.Errorf("%w: lock %q: Extend while the lease is being changed", lock.ErrInvalid, l.Name())
	}
	slack, lost, err := h.apply(a, final, false)
	if lost != nil {
		h.lose(lost)
		return lost
	}
	var q *exec.Quarantine
	if errors.As(err, &q) {
		return h.l.c.QuarantineError("renew", l.Name(), q.Left)
	}
	now := clock.Now()
	h.observeRenewal(now, slack, nil)
	h.plan(now)
	l.check(now)
	return l.ended()
}

// calls are functions to be called when a lease ends.
type calls map[*func(error)]struct{}

// add adds a function.
func (c *calls) add(f *func(error)) {
	if *c == nil {
		*c = calls{}
	}
	(*c)[f] = struct{}{}
}

// make calls all functions, and forgets them.
func (c *calls) make(err error) {
	for f := range *c {
		(*f)(err)
	}
	*c = nil
}

// WhenOver implements Lease.
func (l *holdLease) WhenOver(f func(error)) (forget func()) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.check(clock.Now())
	if l.over {
		f(l.ended())
		return func() {}
	}
	l.calls.add(&f)
	return func() {
		l.g.mu.Lock()
		defer l.g.mu.Unlock()
		delete(l.calls, &f)
	}
}

func (l *holdLease) singles() []*holdLease { return []*holdLease{l} }

// FenceOf implements Lease.
func (l *holdLease) FenceOf(string) uint64 { return l.fence }

// String implements Lease.
func (l *holdLease) String() string {
	return fmt.Sprintf("holdfast.Lease(%q, fence %d)", l.Name(), l.fence)
}
