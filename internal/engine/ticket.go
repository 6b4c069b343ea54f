package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Ticket stands for a lock that its holder has detached, so that another process can adopt it.
type Ticket = wire.Ticket

// ParseTicket reads the text of a ticket.
func ParseTicket(text string) (*Ticket, error) {
	t, err := wire.ParseTicket(text)
	if err != nil {
		return nil, fmt.Errorf("%w: the ticket cannot be read: %w", lock.ErrInvalid, err)
	}
	return &t, nil
}

// Detach ends a lease with ErrReleased, and makes the server keep the lock for at least ttl. Anyone with the ticket can adopt the lock.
// After an error there is no ticket, and the lease goes on unless it has ended.
//
// It returns ErrInvalid, before anything is sent, for a lease that others share, for a job's or a term's lease, and for a lease of any lock
// but a mutex.
func Detach(ctx context.Context, lease Lease, ttl time.Duration) (*Ticket, error) {
	l, single := lease.(*holdLease)
	if !single || !l.g.l.Set.Carriable() {
		return nil, fmt.Errorf("%w: lock %q: only a lease of a Mutex or MutexKey can be detached", lock.ErrInvalid, lease.Name())
	}
	l.g.l.c.Tasks.Begin() // Close waits until observers are told
	defer l.g.l.c.Tasks.End()
	t, err := l.detach(ctx, ttl)
	l.flush()
	return t, err
}

// detach is Detach for a lease of a kind that can be detached.
//
// The ticket is made only after the lease has ended, so no two processes believe they hold the lock. Renewals and hand-overs stop before
// that: once the ticket exists, this process sends nothing for its token.
func (l *holdLease) detach(ctx context.Context, ttl time.Duration) (*Ticket, error) {
	h, c := l.g, l.g.l.c
	if err := c.checkTerm("Detach for", l.Name(), ttl); err != nil {
		return nil, err
	}
	var term time.Duration
	err := l.beginChange(ctx, l.nestedError("detached"), func(now clock.Instant) {
		// While the lock is the token's, a late copy of its acquire changes nothing.
		// mutants: detach-term
		term = max(ttl, h.remainingAt(now), h.l.c.untilTombstone(h.l, h.attempt.unanswered))
		// Even if no ticket is made, the server may keep the lock for that long.
		h.extended = h.extended || term > h.l.Set.TTL
	})
	if err != nil {
		return nil, err
	}
	a, err := h.keepFor(ctx, "detach", term, true)
	if err != nil {
		return nil, l.undoChange(err)
	}
	t, err := l.leaveBehind(a)
	if err != nil {
		return nil, l.undoChange(err)
	}
	// mutants: follower-of-detached
	h.queue.dismissFollower(h)
	// mutants: detached-message
	h.attempt.forget(true)
	h.uncount()
	// mutants: ticket-tombstone
	if c.untilTombstone(h.l, t.Tombstone) == 0 {
		t.Tombstone = 0
	}
	return t, nil
}

// untilTombstone returns how long, from now, a tombstone with that time lasts.
func (c *Client) untilTombstone(l *Target, tombstone int64) time.Duration {
	if tombstone == 0 {
		return 0
	}
	return max(time.Duration(tombstone-c.Server.Time(l.Slot()))*time.Microsecond, 0)
}

// leaveBehind ends the lease and its hold without releasing the lock, and returns the ticket. It returns an error if the server does not
// keep the lock, or if the lease had ended earlier.
func (l *holdLease) leaveBehind(a lock.Answer[codec.Reply]) (*Ticket, error) {
	h, c := l.g, l.g.l.c
	h.queue.mu.Lock()
	defer h.queue.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	// mutants: detached-lost
	l.check(clock.Now())
	if l.over {
		return nil, l.ended()
	}
	slack, lost, err := h.apply(a, false, false)
	var q *exec.Quarantine
	switch {
	case lost != nil:
		h.lose(lost)
		return nil, lost
	case errors.As(err, &q):
		return nil, c.QuarantineError("detach", l.Name(), q.Left)
	}
	h.observeRenewal(clock.Now(), slack, nil)
	// mutants: detach-ends
	l.leave(lock.HandoverNone)
	// mutants: detach-stops
	h.stop()
	h.queue.releaseLocked(h)
	t := &Ticket{Prefix: c.Space.Prefix, Lock: h.l.Name(), Exact: h.l.Set.Key != "", Token: h.attempt.Token()}
	// mutants: ticket-fence
	t.Fence, t.Tombstone = h.first.fence, h.attempt.unanswered
	return t, nil
}

// carried returns the lock that a ticket is for, with these options.
func (c *Client) carried(t *Ticket, opts []kind.Option) (*Target, error) {
	switch {
	case t == nil:
		return nil, fmt.Errorf("%w: the ticket is empty", lock.ErrInvalid)
	// mutants: ticket-prefix
	case t.Prefix != c.Space.Prefix:
		return nil, fmt.Errorf("%w: lock %q: the ticket is for clients with the prefix %q; this one has %q", lock.ErrInvalid, t.Lock, t.Prefix, c.Space.Prefix)
	}
	if t.Exact {
		opts = append([]kind.Option{kind.Key(t.Lock)}, opts...)
	}
	return c.Mutex(t.Lock, opts...), nil
}

// Adopt takes over the lock of a ticket, with a token and a fence of its own. It does not wait: in a quarantine it returns an error that
// matches exec.ErrQuarantine, and the ticket stays valid. ErrLost means that the ticket is no longer valid. If an error leaves open whether
// the lock was adopted, the lock is released in the background.
func (c *Client) Adopt(ctx context.Context, t *Ticket, opts ...kind.Option) (Lease, error) {
	l, err := c.carried(t, opts)
	if err != nil {
		return nil, err
	}
	o, ctx := c.observe(ctx, l, true)
	if o != nil {
		o.handover = lock.HandoverServer
	}
	return o.end(leased(l.adopt(ctx, t)))
}

// adopt is Adopt without telling observers.
func (l *Target) adopt(ctx context.Context, t *Ticket) (*holdLease, error) {
	c := l.c
	defer c.Enter().End() // Close waits for this acquire
	if err := l.Ready(ctx); err != nil {
		return nil, err
	}
	a := l.newAttempt()
	h, err := a.adopt(ctx, t)
	if err != nil {
		// mutants: adoption-taken-back
		a.Abandon()
		return nil, a.adoptionFailed(ctx, err)
	}
	// mutants: adopted-noted
	return l.keep(h), nil
}

// adopt asks the server for the lock of a ticket.
func (a *attempt) adopt(ctx context.Context, t *Ticket) (*hold, error) {
	l, c := a.l, a.l.c
	for range 3 {
		notAfter := l.NotAfter()
		// mutants: adopt-request
		q := &codec.Adopt{Lock: l.Ref(), Token: a.Token(), TTL: l.Set.Term(), NotAfter: notAfter, Info: l.Set.Info, Detached: t.Token, Fence: t.Fence, Tombstone: t.Tombstone}
		r, unanswered, err := lock.Ask(ctx, lock.Request{Op: "adopt", Lock: &l.Lock, Durable: true}, q)
		// mutants: adoption-unanswered
		a.sent(unanswered, notAfter)
		if err != nil {
			a.owed = a.owed || !r.Sent.IsZero() // a reply came, but its meaning is unknown
			return nil, err
		}
		switch reply := &r.Reply; reply.Word {
		case codec.Late:
			continue
		case codec.Quarantined:
			return nil, c.QuarantineError("adopt", l.Name(), reply.Refusal.Quarantine)
		case codec.Gone, codec.Absent:
			return nil, c.spent(l, t, reply.Word)
		}
		a.owed = true
		// mutants: adopted-fence
		return a.takes(r.Sent, clock.Now(), r.Reply.Now, r.Reply.TTL, r.Reply.Fence, 1)
	}
	return nil, l.ClockJumps("adopt")
}

// adoptionFailed returns the error of an adoption. If the lock may have been adopted, it is an *exec.Failure that says so.
func (a *attempt) adoptionFailed(ctx context.Context, err error) error {
	if errors.Is(err, lock.ErrLost) {
		return err // whatever went unanswered, the ticket is no longer valid
	}
	var f *exec.Failure
	if errors.As(err, &f) {
		f.Op, f.Ambiguous = "adopt", a.owed
		return f
	}
	if !a.owed {
		return err
	}
	f = &exec.Failure{Op: "adopt", Name: a.l.Name(), Server: a.l.c.Server.Addr(), Kind: exec.ErrUnavailable, Ambiguous: true, Ended: ctx.Err(),
		Err: errors.New("it was given up before it was answered; if the lock was adopted, it is being released")}
	if errors.Is(err, exec.ErrClosed) {
		f.Kind = exec.ErrClosed
	}
	return f
}

// spent returns the error of a ticket that is no longer valid. As long as a late copy of its token's acquire may bring back a deleted lock,
// spent also releases that lock in the background.
func (c *Client) spent(l *Target, t *Ticket, word codec.Word) error {
	// mutants: spent-ticket
	if c.untilTombstone(l, t.Tombstone) > 0 {
		end := c.takingBackUntil(l)
		c.serverOf(l).reclaim(func(hopeless bool) bool {
			return !hopeless && c.takeBack(l, codec.Release{Token: t.Token, Tombstone: t.Tombstone}, unaware, end)
		})
	}
	lost := &lock.LostError{Name: l.Name(), Reason: lock.LossTaken}
	if word == codec.Absent {
		lost.Reason = lock.LossExpired
		return fmt.Errorf("%w, or the ticket was already used", lost)
	}
	return lost
}

// ExtendTicket makes the server keep the lock of a ticket for at least ttl. The ticket itself does not change. ErrLost means that the
// ticket is no longer valid.
func (c *Client) ExtendTicket(ctx context.Context, t *Ticket, ttl time.Duration, opts ...kind.Option) error {
	l, err := c.carried(t, opts)
	if err != nil {
		return err
	}
	if err := c.checkTerm("transfer.Extend by", l.Name(), ttl); err != nil {
		return err
	}
	defer c.Enter().End()
	if err := l.Ready(ctx); err != nil {
		return err
	}
	// mutants: extend-ticket
	q := &codec.Renew{Lock: l.Ref(), Token: t.Token, Fence: t.Fence, TTL: ttl}
	r, _, err := lock.Ask(ctx, lock.Request{Op: "renew", Lock: &l.Lock, Durable: true}, q)
	if err != nil {
		return err
	}
	switch r.Reply.Word {
	case codec.Gone, codec.Absent:
		return c.spent(l, t, r.Reply.Word)
	case codec.Quarantined:
		return c.QuarantineError("renew", l.Name(), r.Reply.Refusal.Quarantine)
	}
	return nil
}
