package holdfast

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Barrier is where parties wait for each other, phase by phase: none goes on to its next phase before all have arrived at
// the end of the present one. Each party has a lease, so that one that dies is waited for no longer than that: the phase is
// broken then, and all the others are told.
type Barrier struct {
	e *engine.Barrier
}

// Barrier returns the barrier of that name, where that many parties wait for each other: 1 to 10,000. Programs that use it at
// the same time say the same number, or get ErrMismatch. Its options are those of the parties' leases.
func (c *Client) Barrier(name string, parties int, opts ...BarrierOption) *Barrier {
	return &Barrier{c.e.Barrier(name, parties, resolve(options{given: c.common}, opts).given...)}
}

// Join makes the caller a party. It waits, in order, while the barrier has all its parties, until one leaves or dies.
// Errors are those of Lock.Acquire.
func (b *Barrier) Join(ctx context.Context) (*BarrierParty, error) { return newParty(b.e.Join(ctx)) }

// TryJoin is Join, but returns a *HeldError at once when the barrier has all its parties, or others wait to join. Other
// errors are those of Lock.TryAcquire.
func (b *Barrier) TryJoin(ctx context.Context) (*BarrierParty, error) {
	return newParty(b.e.TryJoin(ctx))
}

// Name returns the barrier's name.
func (b *Barrier) Name() string { return b.e.Name() }

// Status says which parties have joined and who waits to. It changes nothing.
func (b *Barrier) Status(ctx context.Context) (Status, error) { return statusOf(ctx, b.e.Lock()) }

// String names the barrier, for people.
func (b *Barrier) String() string { return named("Barrier", b.Name()) }

// BarrierParty is a party of a barrier. When it leaves, or its lease is lost, the present phase is broken, for all who have
// joined and await it, now or later; then another may join in its place, and the next phase begins.
type BarrierParty struct {
	e     *engine.BarrierParty
	lease *Lease
}

func newParty(e *engine.BarrierParty, err error) (*BarrierParty, error) {
	if err != nil {
		return nil, leave(err)
	}
	return &BarrierParty{e, &Lease{e.Lease()}}, nil
}

// Await arrives at the present phase, and waits until all parties have. It returns the number of the phase, from 1, one
// higher each time; all parties return from a phase before one of them can return from the next. The first to join after
// all others had left begins with 1 again.
//
// A *BarrierBrokenError, which matches ErrBarrierBroken, says that a party left or died, and that the phase is over, for all
// parties alike. Each of them is told so once, at the latest when it awaits it; the next Await is for the phase that follows.
// ErrLost says that the caller's lease is lost: it is a party no longer.
//
// When ctx ends, the arrival is taken back, unless the phase has come to its end; the next Await arrives again, or is told
// of that. After another error it is taken back, too. A party awaits one phase at a time: a second Await at the same time
// returns ErrInvalid at once, and leaves the first as it is.
//
// A party is notified when the phase ends. Notifications can be lost, so it also looks when a party may have died, and every
// 30 s. Other errors are those of Lock.Acquire.
func (p *BarrierParty) Await(ctx context.Context) (phase uint64, err error) {
	phase, err = p.e.Await(ctx)
	return phase, p.lease.leave(err)
}

// Leave ends the party's lease; another may join in its place. Its errors are those of Lease.Release.
func (p *BarrierParty) Leave(ctx context.Context) error { return p.lease.Release(ctx) }

// Lease returns the party's lease.
func (p *BarrierParty) Lease() *Lease { return p.lease }

// String names the barrier and the party's fence.
func (p *BarrierParty) String() string {
	return fmt.Sprintf("holdfast.BarrierParty(%q, fence %d)", p.lease.Name(), p.lease.Fence())
}
