package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// maxPassing bounds how long after its grant a lock is passed on within one process while other processes may be waiting for it. A process
// that stalls for less keeps its turn: otherwise its goroutines would have to queue again.
const maxPassing = 100 * time.Millisecond

// holdLease is one lease of a hold. It is safe for concurrent use.
type holdLease struct {
	g     *hold
	fence uint64

	// Guarded by g.mu.
	depth     int32         // how many leases of this lock it is nested in
	over      bool          // the lease has ended
	leaving   bool          // a release has ended the lease and waits for a renewal, after which it may pass the lock on
	releasing bool          // the release is under way
	released  bool          // nothing is left to release
	unsure    bool          // an unanswered release may have been carried out
	outcome   error         // the latest release's error; nil while that is under way
	answered  chan struct{} // closed when the release under way is answered; nil if nobody waits for that
	loss      error         // why the lease ended; nil if it has not, or if it was released

	// Who is told when it ends.
	done     chan struct{} // closed when the lease ends; nil until somebody asks for it
	calls    calls
	joint    *JointLease  // of which the lease is a part; or nil
	observed *observation // what observers are told of the lease; nil if there are none
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

// Done implements Lease.
func (l *holdLease) Done() <-chan struct{} {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.check(clock.Now())
	if l.done == nil {
		l.done = make(chan struct{})
		if l.over {
			close(l.done)
		}
	}
	return l.done
}

// joinTo makes the lease part of another one.
func (l *holdLease) joinTo(m *JointLease) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.joint = m
	if l.over {
		m.partEnded(l)
	}
}

// end ends the lease; further calls do nothing. The caller holds l.g.mu.
func (l *holdLease) end(err error) {
	if lost, is := err.(*lock.LostError); is && l.leaving {
		l.outcome = lost
	}
	if l.over {
		return
	}
	l.over = true
	if err != lock.ErrReleased {
		l.loss = err
	}
	if l.done != nil {
		close(l.done)
	}
	if l.joint != nil {
		l.joint.partEnded(l)
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

// add adds a function, and returns one that removes it. The caller holds mu, which guards c.
func (c *calls) add(mu *sync.Mutex, f func(error)) (forget func()) {
	if *c == nil {
		*c = calls{}
	}
	(*c)[&f] = struct{}{}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		delete(*c, &f)
	}
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
	return l.calls.add(&l.g.mu, f)
}

func (l *holdLease) singles() []*holdLease { return []*holdLease{l} }

// String implements Lease.
func (l *holdLease) String() string {
	return fmt.Sprintf("holdfast.Lease(%q, fence %d)", l.Name(), l.fence)
}
