package engine

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// RWMutex is holdfast.RWMutex. Its sides are two kinds of one lock: a reader weighs 1, a writer all of it.
type RWMutex struct {
	read, write *Target
}

// RWMutex returns the read-write lock of that name. The options apply to both sides.
func (c *Client) RWMutex(name string, opts ...kind.Option) *RWMutex {
	return &RWMutex{
		read:  c.Mutex(name, slices.Concat(opts, []kind.Option{kind.Of(&kind.Reader, kind.Everything, 1)})...),
		write: c.Mutex(name, slices.Concat(opts, []kind.Option{kind.Of(&kind.Writer, kind.Everything, kind.Everything)})...),
	}
}

// Reader returns the lock that readers acquire, with further options, such as a TTL of their own.
func (rw *RWMutex) Reader(opts ...kind.Option) Lock { return rw.read.With(opts...) }

// Writer returns the lock that writers acquire, with further options.
func (rw *RWMutex) Writer(opts ...kind.Option) Lock { return rw.write.With(opts...) }

// Downgrade is holdfast.RWMutex.Downgrade.
func (rw *RWMutex) Downgrade(ctx context.Context, writer Lease) (Lease, error) {
	lease, err := mustBe(writer, rw.write, "Downgrade", "writer")
	if err != nil {
		return nil, err
	}
	return lease.changeSeen(ctx, rw.read, false)
}

// TryUpgrade is holdfast.RWMutex.TryUpgrade.
func (rw *RWMutex) TryUpgrade(ctx context.Context, reader Lease) (Lease, error) {
	lease, err := mustBe(reader, rw.read, "TryUpgrade", "readers")
	if err != nil {
		return nil, err
	}
	return lease.changeSeen(ctx, rw.write, true)
}

// mustBe returns l if it is a lease of want. Otherwise the error names the operation, what, and the side whose lease it needs.
func mustBe(l Lease, want *Target, what, side string) (*holdLease, error) {
	if want.Set.Err != nil {
		return nil, want.Set.Err
	}
	lease, single := l.(*holdLease)
	if have := lease; !single || have.g.l.c != want.c || have.g.l.Keys != want.Keys || have.g.l.Set.Kind != want.Set.Kind {
		return nil, fmt.Errorf("%w: lock %q: %s needs a lease of its %s; this is another, of %q", lock.ErrInvalid, want.Name(), what, side, l.Name())
	}
	return lease, nil
}

// changeSeen is changeMode, and tells observers of an acquire of the other side, during which this lease is released.
func (l *holdLease) changeSeen(ctx context.Context, as *Target, try bool) (Lease, error) {
	o := as.c.observe(ctx, as, try)
	next, err := l.changeMode(o.within(ctx), as)
	l.flush()
	return o.end(leased(next, err))
}

// changeMode turns the lease into one of as, the lock's other side.
func (l *holdLease) changeMode(ctx context.Context, as *Target) (*holdLease, error) {
	h, c := l.g, as.c
	as = &Target{lock.Lock{Of: as.Of, Keys: as.Keys, Set: as.Set.Inheriting(h.l.Set)}, c}
	if err := l.Err(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := l.beginChange(as); err != nil {
		return nil, err
	}
	a, unanswered, err := lock.Ask(ctx, lock.Request{Op: "weigh", Lock: &as.Lock, Durable: true},
		codec.Weigh(as.Ref(), h.attempt.token(), as.Set.Weight, h.fence(), l.fence))
	if err != nil {
		// A writer that becomes a reader has nothing to go back to: its lease has ended.
		if fate, _ := exec.Classify(err); fate == exec.NeverSent && !unanswered && as.Set.Kind != &kind.Reader {
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

// beginChange freezes the hold while its mode is changed: it is not renewed, passed on or joined. Renewals under way may be answered as if
// this process had lost the lock.
func (l *holdLease) beginChange(as *Target) error {
	h := l.g
	h.queue.lock()
	defer h.queue.unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	l.check()
	switch {
	case l.over:
		return l.ended()
	case h.state == changing:
		return fmt.Errorf("%w: lock %q: the lease is being changed already", lock.ErrInvalid, as.Name())
	case len(h.others) > 0 && as.Set.Kind == &kind.Reader:
		return fmt.Errorf("%w: lock %q: it was acquired again within the lease, and cannot be downgraded before that is released", lock.ErrInvalid, as.Name())
	case len(h.others) > 0:
		return &lock.HeldError{Name: as.Name(), Holder: lock.Holder{Owner: as.Set.Owner, Host: as.c.Host, PID: os.Getpid(), Grant: h.grant().id}}
	}
	if as.Set.Kind == &kind.Reader {
		l.end(lock.ErrReleased)
		l.endObserved(lock.HandoverNone, nil)
		l.released = true
	}
	h.before, h.state, h.renewAfter = h.state, changing, 0
	h.plan()
	return nil
}

// undoChange ends a change that changed nothing. It returns why, or the lease's error if the lease has ended.
func (l *holdLease) undoChange(why error) error {
	h := l.g
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == changing {
		h.state = h.before
		if !h.hasLease() {
			h.state = retired
		}
	}
	l.check()
	if l.over {
		return l.ended()
	}
	// mutants: undone-renewed
	if h.canRenew() {
		h.renewAt(clock.Now())
	}
	h.plan()
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

	h.queue.lock()
	defer h.queue.unlock()
	h.mu.Lock()
	if h.state == over { // lost or released meanwhile
		defer h.mu.Unlock()
		if as.Set.Kind == &kind.Reader { // beginChange has ended the writer's lease
			return nil, &lock.LostError{Name: as.Name(), Reason: lock.LossExpired}
		}
		return nil, l.ended()
	}
	next := newHold(&from, a.Sent, clock.Between(h.since(), a.Sent), term-drift(term), a.Reply.Fence, 1)
	next.state = h.before
	if next.renewals = h.renewals; !h.isClaim() {
		next.renewals += int32(h.flying) // those under way count, although nobody waits for their replies
	}
	if next.noteHeard(clock.Now()) {
		defer h.mu.Unlock()
		h.lose(&lock.LostError{Name: as.Name(), Reason: lock.LossExpired})
		return nil, &exec.Failure{Op: "weigh", Name: as.Name(), Server: as.c.Server.Addr(), Kind: exec.ErrUnavailable, Err: errLate}
	}
	l.end(lock.ErrReleased)
	l.endObserved(lock.HandoverNone, nil)
	l.released = true
	h.stop()
	h.mu.Unlock()

	var lease *holdLease
	if h.queue == nil {
		lease = next.firstLease()
	} else {
		lease = h.queue.keep(next)
		h.queue.admitReaders()
	}
	h.mu.Lock()
	h.queue.releaseLocked(h)
	h.mu.Unlock()
	h.uncount()
	return lease, nil
}

// String names the lock, for people.
func (rw *RWMutex) String() string { return fmt.Sprintf("holdfast.RWMutex(%q)", rw.read.Name()) }
