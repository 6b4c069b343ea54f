package holdfast

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Latch is a count of parties that have something to do before others go on. It begins with the number of parties, each
// party lowers it by one, and waiters go on when it is 0. It stays so until Reset begins it anew, Delete removes it, or
// nobody has used it for a day.
//
// A party either calls CountDown, or registers first. A registered party has a lease: if its process dies, nobody waits for
// it for longer than that.
type Latch struct {
	e *engine.Latch
}

// Latch returns the latch of that name, which opens when that many parties have counted down: 1 to 1,000,000. Programs that
// use it say the same number, or get ErrMismatch. Its options are those of the leases of registered parties.
func (c *Client) Latch(name string, parties int, opts ...LatchOption) *Latch {
	return &Latch{c.e.Latch(name, parties, resolve(options{given: c.common}, opts).given...)}
}

// Wait waits until the count is 0. It returns nil when all parties have counted down; a *LatchIncompleteError, which matches
// ErrLatchIncomplete, when the count is 0, but some registered party left or died before it counted down; and ErrLatchReset
// when the count began anew before it was 0: by Reset, or because the server has lost it.
//
// It is notified when the count is 0, and looks for itself when a party may have died, and every 30 s, since notifications
// can be lost. Other errors are those of Lock.Acquire. It leaves nothing behind.
func (l *Latch) Wait(ctx context.Context) error { return leave(l.e.Wait(ctx)) }

// CountDown lowers the count by one, for a party that has not registered. At 0 it stays 0. If all the parties that are left
// have registered, it returns ErrHeld: they count down themselves.
//
// It counts once, however often the request has to be sent; once begun it goes on when ctx ends, for as long as
// Config.RetryTimeout. After ErrAmbiguous it may count all the same, until RetryTimeout, CommandTimeout and a second later.
// Other errors are those of Lock.TryAcquire.
func (l *Latch) CountDown(ctx context.Context) error { return leave(l.e.CountDown(ctx)) }

// Register makes the caller a party with a lease, without waiting, so that a crash does not keep waiters longer than its
// TTL. If no party is left that has neither registered nor counted down, it returns ErrHeld. Other errors are those of
// Lock.TryAcquire.
//
// If the lease ends in another way than by LatchParty.CountDown, the count is lowered, too, so that nobody waits for it;
// but waiters get ErrLatchIncomplete. So leave in a defer:
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
func (l *Latch) Register(ctx context.Context) (*LatchParty, error) {
	e, err := l.e.Join(ctx)
	if err != nil {
		return nil, leave(err)
	}
	return &LatchParty{e, &Lease{e.Lease()}}, nil
}

// Count returns how many parties are left. 0: the latch is open.
func (l *Latch) Count(ctx context.Context) (int, error) {
	n, err := l.e.Count(ctx)
	return n, leave(err)
}

// Reset begins the count anew, whatever it was. Waiters of a count that was not 0 get ErrLatchReset, others go on. Registered
// parties lose their leases (LossSuperseded); each learns of it from its next renewal, or when it counts down. However often
// the request has to be sent, it resets once. Its errors are those of CountDown.
func (l *Latch) Reset(ctx context.Context) error { return leave(l.e.Reset(ctx)) }

// Delete removes the latch from the server, where it would stay until nobody had used it for a day. Whoever uses its name
// next begins a count, with as many parties as it says. For waiters and registered parties it is as Reset, whose errors it
// has; the parties' reason is LossDeleted. What waiters have to be told stays for a minute.
func (l *Latch) Delete(ctx context.Context) error { return leave(l.e.Delete(ctx)) }

// Name returns the latch's name.
func (l *Latch) Name() string { return l.e.Name() }

// Status says which parties have registered and not counted down yet, and how many are left. It changes nothing.
func (l *Latch) Status(ctx context.Context) (Status, error) { return statusOf(ctx, l.e.Lock()) }

// String names the latch, for people.
func (l *Latch) String() string { return named("Latch", l.Name()) }

// LatchParty is a registered party of a latch.
type LatchParty struct {
	e     *engine.LatchParty
	lease *Lease
}

// CountDown lowers the latch's count, once, and ends the lease as Lease.Release does, whose errors it has. It counts once,
// however often the request has to be sent, or the method is called. It returns a *LostError if the lease was lost, and
// ErrReleased after Leave: the party is then a missing one. After another error it may count or not; Leave, which may be
// called then, tries to count it, too.
func (p *LatchParty) CountDown(ctx context.Context) error { return p.lease.leave(p.e.CountDown(ctx)) }

// Leave ends the lease without counting down: waiters get ErrLatchIncomplete. After CountDown it does nothing. Its errors
// are those of Lease.Release.
func (p *LatchParty) Leave(ctx context.Context) error { return p.lease.Release(ctx) }

// Lease returns the party's lease.
func (p *LatchParty) Lease() *Lease { return p.lease }

// String names the latch and the party's fence.
func (p *LatchParty) String() string {
	return fmt.Sprintf("holdfast.LatchParty(%q, fence %d)", p.lease.Name(), p.lease.Fence())
}
