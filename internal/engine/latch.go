package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// latch is the lock whose holders are the parties that have joined a latch.
var latch = shared(codec.Latch, kind{
	nesting:    neverWaits,
	hasParties: true,
	counts:     true,
	check:      atMost(maxPermits),
})

// Latch is holdfast.Latch. The server keeps a count, and a hold for each registered party.
type Latch struct {
	lock *target
}

// Latch returns the latch of that name, for 1 to 1,000,000 parties. All that use it must give the
// same number, or they get ErrParties. The options are for the leases of parties that join the
// latch.
func (c *Client) Latch(name string, parties int, opts ...Option) *Latch {
	given := []Option{func(s *settings) { s.kind, s.limit, s.weight = &latch, parties, 1 }}
	return &Latch{c.newLock(name, append(given, opts...))}
}

// IncompleteError says that a latch is open although some parties never counted down: they had
// joined it, and then left or died. It matches ErrIncomplete.
type IncompleteError struct {
	Name    string
	Missing int // how many of them
	Parties int
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("holdfast: latch %q is open, but %d of %d parties never counted down: they left or died", e.Name, e.Missing, e.Parties)
}

// Is makes an IncompleteError match ErrIncomplete.
func (e *IncompleteError) Is(target error) bool { return target == ErrIncomplete }

// Lock returns the lock of which parties have leases.
func (l *Latch) Lock() Lock { return l.lock }

// Name returns the latch's name.
func (l *Latch) Name() string { return l.lock.name() }

// CountDown is holdfast.Latch.CountDown.
func (l *Latch) CountDown(ctx context.Context) error {
	if err := l.lock.ready(ctx); err != nil {
		return err
	}
	reply, err := askOf(ctx, request{op: "count down", lock: l.lock, durable: true}, func(id string, notAfter int64) codec.Request[codec.CountReply] {
		return &codec.CountDown{Lock: l.lock.ref(), ID: id, Parties: l.lock.set.limit, NotAfter: notAfter}
	})
	if err == nil && reply.Word == codec.Taken {
		err = fmt.Errorf("%w: latch %.64q: the remaining parties, %d, have all registered and count down themselves", ErrHeld, l.lock.name(), reply.Left)
	}
	return err
}

// Reset restarts the count, whatever it was. Waiters get ErrReset if the count had not reached 0,
// and go on if it had. Parties that had joined lose their leases.
//
// Reset takes effect once, however often the request has to be sent. Its errors are those of
// CountDown.
func (l *Latch) Reset(ctx context.Context) error {
	return l.reset(ctx, "reset", l.lock.set.limit)
}

// Delete removes the latch from the server, where it would otherwise stay until nobody has used it
// for a day. Whoever uses the name next begins a count with as many parties as it gives. For
// waiters, and for parties that have joined, Delete is like Reset, and it has the same errors. What
// waiters have to be told is kept for a minute.
func (l *Latch) Delete(ctx context.Context) error { return l.reset(ctx, "delete", 0) }

// reset restarts the count with that many parties, or deletes the latch if there are none.
func (l *Latch) reset(ctx context.Context, op string, parties int) error {
	if err := l.lock.ready(ctx); err != nil {
		return err
	}
	_, err := askOf(ctx, request{op: op, lock: l.lock, durable: true}, func(id string, notAfter int64) codec.Request[codec.ResetReply] {
		return &codec.ResetLatch{Lock: l.lock.ref(), ID: id, Parties: parties, NotAfter: notAfter}
	})
	return err
}

// Count returns how many parties have yet to count down. At 0 the latch is open.
func (l *Latch) Count(ctx context.Context) (int, error) {
	if err := l.lock.ready(ctx); err != nil {
		return 0, err
	}
	now, err := l.check(ctx, 0)
	return now.Left, err
}

// Wait is holdfast.Latch.Wait.
func (l *Latch) Wait(ctx context.Context) error {
	lock := l.lock
	defer lock.c.enter().End()
	if err := lock.ready(ctx); err != nil {
		return err
	}
	w, err := lock.c.watch(lock)
	if err != nil {
		return err
	}
	defer w.leave()
	var since int64
	for {
		now, err := l.check(ctx, since)
		switch {
		case err == nil && (now.Word == codec.Reset || now.Word == codec.CountIs && now.Since != since && since != 0):
			return fmt.Errorf("%w: %.64q", ErrReset, lock.name())
		case err == nil && now.Left == 0 && now.Missing > 0:
			return &IncompleteError{Name: lock.name(), Missing: now.Missing, Parties: lock.set.limit}
		case err == nil && now.Left == 0:
			return nil
		case err != nil && (since == 0 || ctx.Err() != nil || !exec.Passing(exec.KindOf(err))):
			return err
		case err == nil:
			since = now.Since
		}
		if over := w.wait(ctx, err == nil, now.TTL); over != nil {
			if ctx.Err() != nil {
				return exec.EndedBy(ctx, err)
			}
			return over
		}
	}
}

// check asks about the count that began at since or, if since is 0, about the current one.
func (l *Latch) check(ctx context.Context, since int64) (codec.LatchReply, error) {
	lock := l.lock
	a, _, err := ask(ctx, lock.c, request{op: "inspect", lock: lock}, &codec.LookAtLatch{Lock: lock.ref(), Parties: lock.set.limit, Since: since})
	return a.reply, err
}

// LatchParty is a party that has joined a latch, and its lease.
type LatchParty struct {
	*holdLease
}

// Join is holdfast.Latch.Register.
func (l *Latch) Join(ctx context.Context) (*LatchParty, error) {
	lease, err := l.lock.tryAcquire(ctx)
	if errors.Is(err, ErrHeld) {
		return nil, fmt.Errorf("%w: latch %.64q: all remaining parties have registered", ErrHeld, l.lock.name())
	}
	if err != nil {
		return nil, err
	}
	return &LatchParty{lease}, nil
}

// Lease returns the party's lease.
func (p *LatchParty) Lease() Lease { return p.holdLease }

// CountDown lowers the latch's count and ends the lease. It counts once, however often the request
// has to be sent or the method is called. It returns a *LostError if the lease had been lost, and
// ErrReleased if it had been released: the party is then a missing one. Otherwise it has the errors
// of Release; after one of these it may have counted or not. A later Release tries to count it,
// too.
func (p *LatchParty) CountDown(ctx context.Context) error {
	return p.release(ctx, hasCountedDown)
}
