package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// Sides returns the sides of the read-write lock of that name. They are two kinds of one lock: a reader weighs 1, a writer all of it. The
// options apply to both.
func (c *Client) Sides(name string, opts []kind.Option) (read, write *Target) {
	return c.Mutex(name, slices.Concat(opts, []kind.Option{kind.Of(&kind.Reader, kind.Everything, 1)})...),
		c.Mutex(name, slices.Concat(opts, []kind.Option{kind.Of(&kind.Writer, kind.Everything, kind.Everything)})...)
}

// Downgrade is holdfast.RWMutex.Downgrade: it turns a lease of write into one of read.
func Downgrade(ctx context.Context, writer Lease, write, read *Target) (Lease, error) {
	lease, err := mustBe(writer, write, "Downgrade", "writer")
	if err != nil {
		return nil, err
	}
	return lease.changeSeen(ctx, read, false)
}

// TryUpgrade is holdfast.RWMutex.TryUpgrade: it turns a lease of read into one of write.
func TryUpgrade(ctx context.Context, reader Lease, read, write *Target) (Lease, error) {
	lease, err := mustBe(reader, read, "TryUpgrade", "readers")
	if err != nil {
		return nil, err
	}
	return lease.changeSeen(ctx, write, true)
}

// mustBe returns l if it is a lease of want. Otherwise the error names the operation, what, and the side whose lease it needs.
func mustBe(l Lease, want *Target, what, side string) (*holdLease, error) {
	if want.Set.Err != nil {
		return nil, want.Set.Err
	}
	lease, single := l.(*holdLease)
	if have := lease; !single || have.g.l.c != want.c || have.g.l.Keys != want.Keys || have.g.l.Set.Kind != want.Set.Kind {
		return nil, fmt.Errorf("%w: lock %q: %s needs a lease of its %s, from this client; this is another, of %q", lock.ErrInvalid, want.Name(), what, side, l.Name())
	}
	return lease, nil
}

// changeSeen is changeMode, and tells observers of an acquire of the other side, during which this lease is released.
func (l *holdLease) changeSeen(ctx context.Context, as *Target, try bool) (Lease, error) {
	o, ctx := as.c.observe(ctx, as, try)
	next, err := l.changeMode(ctx, as)
	l.flush()
	return o.end(leased(next, err))
}

// changeMode turns the lease into one of as, the lock's other side.
func (l *holdLease) changeMode(ctx context.Context, as *Target) (*holdLease, error) {
	h, c := l.g, as.c
	as = &Target{lock.Lock{Of: as.Of, Keys: as.Keys, Set: as.Set.Inheriting(h.l.Set)}, c}
	toReader := as.Set.Kind == &kind.Reader
	var joined error = &lock.HeldError{Name: as.Name()} // as when other processes are readers, of which the server names none
	if toReader {
		joined = l.nestedError("downgraded")
	}
	if err := l.beginChange(ctx, joined, func(clock.Instant) {
		if toReader {
			l.leave(lock.HandoverNone)
		}
	}); err != nil {
		return nil, err
	}
	a, unanswered, err := lock.Ask(ctx, lock.Request{Op: "weigh", Lock: &as.Lock, Durable: true},
		codec.Weigh(as.Ref(), h.attempt.Token(), as.Set.Weight, h.first.fence, l.fence))
	if err != nil {
		// A writer that becomes a reader has nothing to go back to: its lease has ended.
		if fate, _ := exec.Classify(err); fate == exec.NeverSent && !unanswered && !toReader {
			return nil, l.undoChange(err)
		}
		return nil, l.abortChange(err)
	}
	switch a.Reply.Word {
	case codec.Held:
		return nil, l.undoChange(&lock.HeldError{Name: l.Name()})
	case codec.Gone, codec.Absent:
		return nil, l.abortChange(as.Missing(a.Reply.Word))
	case codec.Quarantined:
		return nil, l.abortChange(c.QuarantineError("weigh", as.Name(), a.Reply.Refusal.Quarantine))
	}
	return l.finishChange(as, a)
}

// beginChange freezes the hold while its mode is changed or its lease is detached: it is not renewed, passed on or joined. Renewals under
// way may be answered as if this process had lost the lock. If the hold has other leases, beginChange returns joined. Otherwise it calls
// prepare, with the time, while it holds the mutexes.
func (l *holdLease) beginChange(ctx context.Context, joined error, prepare func(now clock.Instant)) error {
	h := l.g
	h.queue.mu.Lock()
	defer h.queue.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	now := clock.Now()
	l.check(now)
	switch {
	case l.over:
		return l.ended()
	case ctx.Err() != nil:
		return ctx.Err()
	case h.state == changing:
		return fmt.Errorf("%w: lock %q: the lease is being changed or detached already", lock.ErrInvalid, l.Name())
	// mutants: detach-nested
	case len(h.others) > 0:
		return joined
	}
	prepare(now)
	// mutants: detach-freezes
	h.state, h.renewAfter = changing, 0
	h.plan(now)
	return nil
}

// nestedError returns the error of a lease within which others were acquired, and which therefore cannot be changed as done says.
func (l *holdLease) nestedError(done string) error {
	return fmt.Errorf("%w: lock %q: it was acquired again within the lease, and cannot be %s before that is released", lock.ErrInvalid, l.Name(), done)
}

// undoChange ends a change that changed nothing. It returns why, or the lease's error if the lease has ended.
func (l *holdLease) undoChange(why error) error {
	h := l.g
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == changing {
		h.state = held
		if !h.hasLease() {
			h.state, h.claim = retired, false
		}
	}
	now := clock.Now()
	l.check(now)
	if l.over {
		return l.ended()
	}
	// mutants: undone-renewed
	if h.canRenew() {
		h.renewAt(now)
	}
	h.plan(now)
	return why
}

// abortChange ends the lease after an error that leaves unknown what the server has. It returns err.
func (l *holdLease) abortChange(err error) error {
	h := l.g
	lost := &lock.LostError{Name: l.Name(), Reason: lock.LossUnreachable, Err: err}
	if e, ok := err.(*lock.LostError); ok {
		lost = e
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != over {
		h.lose(lost)
	}
	return err
}

// finishChange ends the lease and returns one in the other mode, which takes over its hold on the server.
func (l *holdLease) finishChange(as *Target, a lock.Answer[codec.Reply]) (*holdLease, error) {
	h := l.g
	from := h.attempt
	from.l = as
	term := min(a.Reply.TTL, as.c.Config.MaxTTL)

	h.queue.mu.Lock()
	defer h.queue.mu.Unlock()
	h.mu.Lock()
	if h.state == over { // lost or released meanwhile
		defer h.mu.Unlock()
		if as.Set.Kind == &kind.Reader { // beginChange has ended the writer's lease
			return nil, &lock.LostError{Name: as.Name(), Reason: lock.LossExpired}
		}
		return nil, l.ended()
	}
	next := newHold(&from, a.Sent, clock.Between(h.since(), a.Sent), term-drift(term), a.Reply.Fence, 1)
	next.claim = h.claim
	if next.renewals = h.renewals; !h.claim {
		next.renewals += int32(h.flying) // those under way count, although nobody waits for their replies
	}
	now := clock.Now()
	next.renewAt(now) // for firstLease
	if next.expired(now) {
		defer h.mu.Unlock()
		h.lose(&lock.LostError{Name: as.Name(), Reason: lock.LossExpired})
		return nil, &exec.Failure{Op: "weigh", Name: as.Name(), Server: as.c.Server.Addr(), Kind: exec.ErrUnavailable, Err: errLate}
	}
	l.leave(lock.HandoverNone)
	h.stop()
	h.mu.Unlock()

	lease := h.queue.keep(next)
	if as.Set.Kind.Joinable {
		h.queue.admitReaders()
	}
	h.mu.Lock()
	h.queue.releaseLocked(h)
	h.mu.Unlock()
	h.uncount()
	return lease, nil
}
