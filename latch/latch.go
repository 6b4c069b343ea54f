// Package latch provides a countdown latch for parties on any number of machines.
package latch

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/option"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// Latch is a count of parties that have something to do before others go on. It begins with the number of parties. Each party lowers it by
// one, and waiters go on when it is 0. It stays 0 until Reset begins it anew, Delete removes it, or nobody has used it for a day.
//
// A party either calls CountDown, or registers first. A registered party has a lease: if its process dies, waiters wait for it no longer
// than the lease lasts.
type Latch struct {
	handle
	lock *engine.Target // its holders are the registered parties
}

type handle = printable.Handle[printable.Named]

// Option is an option of the leases of registered parties: one of package holdfast that fits, such as TTL.
type Option interface{ option.Latch }

// New returns the latch of that name, which opens when that many parties have counted down: 1 to 1,000,000. The first to use it, even to
// wait, begins the count. All must give the same number; others get holdfast.ErrMismatch, until Reset gives another. New sends nothing.
func New(locks *holdfast.Client, name string, parties int, opts ...Option) *Latch {
	c := access.Client(locks)
	lock := c.Engine.Limited(&kind.Latch, name, parties, option.Resolve(option.Set{Given: c.Durable}, opts).Given)
	return &Latch{printable.Name("latch.Latch", lock), lock}
}

// What happened to a latch. Test for these with errors.Is.
var (
	// ErrIncomplete says that a latch is open, but that some of its parties never counted down. errors.As with *IncompleteError tells how
	// many.
	ErrIncomplete = errors.New("holdfast: latch is open, but a party did not count down")
	// ErrReset says that a latch was begun anew while the caller waited for it.
	ErrReset = errors.New("holdfast: latch was reset")
)

// IncompleteError says that a latch is open although some parties never counted down: they had registered, and left or died. It matches
// ErrIncomplete.
type IncompleteError struct {
	Name    string
	Missing int // parties that never counted down
	Parties int
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("holdfast: latch %q is open, but %d of %d parties never counted down: they left or died", e.Name, e.Missing, e.Parties)
}

// Is makes an IncompleteError match ErrIncomplete.
func (e *IncompleteError) Is(target error) bool { return target == ErrIncomplete }

// Wait waits until the count is 0. It returns nil if all parties have counted down. It returns an *IncompleteError, which matches
// ErrIncomplete, if some registered party left or died without counting down. It returns ErrReset if the count began anew before it was 0,
// by Reset or because the server lost it. Other errors are those of holdfast.Lock.Acquire.
//
// Wait is notified when the count is 0. Notifications can be lost, so it also looks when a party may have died, and every 30 s.
func (l *Latch) Wait(ctx context.Context) error {
	defer l.lock.Of.Enter().End()
	if err := l.lock.Ready(ctx); err != nil {
		return access.Error(err)
	}
	w, err := l.lock.Watch()
	if err != nil {
		return access.Error(err)
	}
	defer w.Leave()
	var since int64
	for {
		now, err := l.look(ctx, since)
		switch {
		case err == nil && (now.Word == codec.Reset || now.Word == codec.CountIs && now.Since != since && since != 0):
			return fmt.Errorf("%w: %.64q", ErrReset, l.Name())
		case err == nil && now.Count == 0 && now.Missing > 0:
			return &IncompleteError{Name: l.Name(), Missing: int(now.Missing), Parties: l.lock.Set.Limit}
		case err == nil && now.Count == 0:
			return nil
		case err != nil && (since == 0 || ctx.Err() != nil || !engine.MayPass(err)):
			return access.Error(err)
		case err == nil:
			since = now.Since
		}
		if over := w.Wait(ctx, err == nil, now.TTL); over != nil {
			return access.Error(engine.EndedBy(ctx, over, err))
		}
	}
}

// look asks about the count that began at since or, if since is 0, about the present one.
func (l *Latch) look(ctx context.Context, since int64) (codec.Reply, error) {
	return engine.Ask(ctx, l.lock, "inspect", false, codec.LookAtLatch(l.lock.Ref(), l.lock.Set.Limit, since))
}

// CountDown lowers the count by one, for a party that has not registered. At 0 it stays 0. If all remaining parties have registered,
// CountDown returns holdfast.ErrHeld: they count down themselves.
//
// CountDown counts once, however often the request has to be sent. Once begun, it goes on for up to Config.RetryTimeout even if ctx ends.
// After holdfast.ErrAmbiguous it may still count until RetryTimeout, CommandTimeout and one second have passed. Other errors are those of
// holdfast.Lock.TryAcquire.
func (l *Latch) CountDown(ctx context.Context) error {
	if err := l.lock.Ready(ctx); err != nil {
		return access.Error(err)
	}
	reply, err := engine.Change(ctx, l.lock, "count down", func(id string, notAfter int64) codec.Request[codec.Reply] {
		return codec.CountDown(l.lock.Ref(), id, l.lock.Set.Limit, notAfter)
	})
	if err == nil && reply.Word == codec.Taken {
		return fmt.Errorf("%w: latch %.64q: the remaining parties, %d, have all registered and count down themselves", holdfast.ErrHeld, l.Name(), reply.Count)
	}
	return access.Error(err)
}

// Register makes the caller a party with a lease, so that a crash does not keep waiters longer than its TTL. It does not wait: it returns
// holdfast.ErrHeld if all parties have registered or counted down. Other errors are those of holdfast.Lock.Acquire.
//
// If the lease ends in any other way than by Party.CountDown, the count is lowered, too, so that nobody waits for the party, but waiters
// get ErrIncomplete. So call Leave in a defer:
//
//	party, err := latch.Register(ctx)
//	if err != nil {
//		return err
//	}
//	defer party.Leave(ctx)
//	if err := work(party.Lease().Context(ctx)); err != nil {
//		return err
//	}
//	return party.CountDown(ctx)
func (l *Latch) Register(ctx context.Context) (*Party, error) {
	lease, err := l.asLock().TryAcquire(exec.Patient(ctx))
	if errors.Is(err, holdfast.ErrHeld) {
		return nil, fmt.Errorf("%w: latch %.64q: all remaining parties have registered", holdfast.ErrHeld, l.Name())
	}
	if err != nil {
		return nil, err
	}
	return &Party{printable.NewHandle(lease)}, nil
}

func (l *Latch) asLock() *holdfast.Lock { return access.NewLock(l.lock, 0).(*holdfast.Lock) }

// Count returns how many parties are left. At 0 the latch is open.
func (l *Latch) Count(ctx context.Context) (int, error) {
	if err := l.lock.Ready(ctx); err != nil {
		return 0, access.Error(err)
	}
	now, err := l.look(ctx, 0)
	return int(now.Count), access.Error(err)
}

// Reset begins the count anew, whatever it was. Waiters get ErrReset, unless the old count was 0. Registered parties lose their leases
// (holdfast.LossSuperseded); each learns of it when it next renews or counts down. Reset takes effect once, however often the request has
// to be sent. Its errors are those of CountDown.
func (l *Latch) Reset(ctx context.Context) error { return l.reset(ctx, "reset", l.lock.Set.Limit) }

// Delete removes the latch from the server, where it would otherwise stay until nobody had used it for a day. The next program to use its
// name begins a count of as many parties as it gives. To waiters and registered parties, Delete is like Reset, but the parties' reason is
// holdfast.LossDeleted. Its errors are those of Reset. The server keeps what waiters need to know for a minute.
func (l *Latch) Delete(ctx context.Context) error { return l.reset(ctx, "delete", 0) }

// reset begins the count anew with that many parties or, if parties is 0, deletes the latch.
func (l *Latch) reset(ctx context.Context, op string, parties int) error {
	if err := l.lock.Ready(ctx); err != nil {
		return access.Error(err)
	}
	_, err := engine.Change(ctx, l.lock, op, func(id string, notAfter int64) codec.Request[codec.Reply] {
		return codec.ResetLatch(l.lock.Ref(), id, parties, notAfter)
	})
	return access.Error(err)
}

// Name returns the latch's name.
func (l *Latch) Name() string { return l.lock.Name() }

// Status returns which parties have registered and not counted down yet, and how many parties are left. It changes nothing.
func (l *Latch) Status(ctx context.Context) (holdfast.Status, error) { return l.asLock().Status(ctx) }

// Party is a registered party of a latch.
type Party struct {
	partyHandle
}

type partyHandle = printable.Handle[*holdfast.Lease]

// CountDown lowers the latch's count and ends the lease as Lease.Release does, whose errors it returns. It counts once, however often the
// request has to be sent or the method is called. It returns a *holdfast.LostError if the lease was lost, and holdfast.ErrReleased after
// Leave: the party is missing then. After another error it may or may not count; a call of Leave then tries to count it, too.
func (p *Party) CountDown(ctx context.Context) error {
	return access.ErrorOf(p.Lease(), engine.CountDown(ctx, access.Lease(p.Lease())))
}

// Leave ends the lease without counting down: waiters get ErrIncomplete. After CountDown it does nothing. Its errors are those of
// holdfast.Lease.Release.
func (p *Party) Leave(ctx context.Context) error { return p.Lease().Release(ctx) }

// Lease returns the party's lease.
func (p *Party) Lease() *holdfast.Lease { return printable.Of(p.partyHandle) }
