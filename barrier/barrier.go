// Package barrier provides a barrier at which parties on any number of machines wait for each other, phase by phase.
package barrier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/option"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// Barrier makes parties wait for each other, phase by phase: no party goes on to its next phase before all have arrived at the end of the
// present one. Each party has a lease, so that the others do not wait longer for one that dies: the phase is then broken, and all others
// are told.
type Barrier struct {
	handle
	lock *engine.Target // its holders are the parties
}

type handle = printable.Handle[printable.Named]

// Option is an option of the parties' leases: one of package holdfast that fits, such as TTL.
type Option interface{ option.Barrier }

// New returns the barrier of that name, where that many parties wait for each other: 1 to 10,000. Programs that use it at the same time
// must give the same number; others get holdfast.ErrMismatch. New sends nothing.
func New(locks *holdfast.Client, name string, parties int, opts ...Option) *Barrier {
	c := access.Client(locks)
	lock := c.Engine.Limited(&kind.Barrier, name, parties, option.Resolve(option.Set{Given: c.Durable}, opts).Given)
	return &Barrier{printable.Name("barrier.Barrier", lock), lock}
}

// ErrBroken says that a party of a barrier left or died before all had arrived. errors.As with *BrokenError tells which.
var ErrBroken = errors.New("holdfast: barrier is broken")

// BrokenError says which party broke a barrier's phase. It matches ErrBroken.
type BrokenError struct {
	Name  string
	Phase uint64
	Party holdfast.Holder // if several phases were broken meanwhile, the party that broke the latest
	Died  bool            // the party's lease was lost or expired; otherwise the party left
}

func (e *BrokenError) Error() string {
	how := "left"
	if e.Died {
		how = "died"
	}
	party := lock.Holder{Owner: e.Party.Identity, Host: e.Party.Host, PID: e.Party.PID}
	return fmt.Sprintf("holdfast: phase %d of barrier %q is broken: party %s has %s", e.Phase, e.Name, party.Who(), how)
}

// Is makes a BrokenError match ErrBroken.
func (e *BrokenError) Is(target error) bool { return target == ErrBroken }

// Join makes the caller a party. If the barrier has all its parties, Join waits, in order, until one leaves or dies. Its errors are those
// of holdfast.Lock.Acquire.
func (b *Barrier) Join(ctx context.Context) (*Party, error) {
	return b.newParty(b.asLock().Acquire(ctx))
}

// TryJoin is Join, but returns a *holdfast.HeldError at once if the barrier has all its parties, or others wait to join. Other errors are
// those of holdfast.Lock.Acquire.
func (b *Barrier) TryJoin(ctx context.Context) (*Party, error) {
	return b.newParty(b.asLock().TryAcquire(exec.Patient(ctx)))
}

func (b *Barrier) asLock() *holdfast.Lock { return access.NewLock(b.lock, 0).(*holdfast.Lock) }

func (b *Barrier) newParty(lease *holdfast.Lease, err error) (*Party, error) {
	if err != nil {
		return nil, err
	}
	return &Party{partyHandle: printable.NewHandle(lease), lock: b.lock}, nil
}

// Name returns the barrier's name.
func (b *Barrier) Name() string { return b.lock.Name() }

// Status returns which parties have joined and who waits to join. It changes nothing.
func (b *Barrier) Status(ctx context.Context) (holdfast.Status, error) { return b.asLock().Status(ctx) }

// Party is a party of a barrier. When it leaves, or its lease is lost, the present phase is broken for all parties that have joined, even
// those that await it later. Then another may join in its place, and the next phase begins.
type Party struct {
	partyHandle
	lock *engine.Target

	mu       sync.Mutex
	awaiting bool
	number   uint64 // of Await's calls, from 1
	phase    uint64 // at which the next Await arrives; 0 for the phase that was current when the party joined
	passed   uint64 // the latest phase that has tripped
}

type partyHandle = printable.Handle[*holdfast.Lease]

// Await arrives at the present phase, and waits until all parties have arrived. It returns the number of the phase. Phases are numbered
// from 1; after all parties have left, the first to join begins with 1 again. All parties return from a phase before any of them can return
// from the next.
//
// A *BrokenError, which matches ErrBroken, says that a party left or died, and that the phase is over for all parties alike. Each of them
// is told once, at the latest when it awaits that phase; its next Await is for the phase that follows. holdfast.ErrLost says that the
// caller's lease is lost: it is no longer a party.
//
// When ctx ends, the arrival is taken back unless the phase has ended. The next Await arrives again, or returns how the phase ended. After
// another error the arrival is taken back, too. A party awaits one phase at a time: a second Await at the same time returns
// holdfast.ErrInvalid at once, without affecting the first.
//
// A party is notified when the phase ends. Notifications can be lost, so it also looks when a party may have died, and every 30 s. Other
// errors are those of holdfast.Lock.Acquire.
func (p *Party) Await(ctx context.Context) (phase uint64, err error) {
	phase, err = p.await(ctx)
	return phase, access.ErrorOf(p.Lease(), err)
}

func (p *Party) await(ctx context.Context) (phase uint64, err error) {
	l := p.lock
	defer l.Of.Enter().End()
	if l.Of.IsClosing() {
		return 0, holdfast.ErrClosed
	}
	if err := p.Lease().Err(); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	p.mu.Lock()
	if p.awaiting {
		p.mu.Unlock()
		return 0, fmt.Errorf("%w: barrier %q: the party is already awaiting a phase", holdfast.ErrInvalid, l.Name())
	}
	p.awaiting = true
	p.number++
	number, at, passed := p.number, p.phase, p.passed
	p.mu.Unlock()
	next := at
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.awaiting, p.phase, p.passed = false, next, max(p.passed, phase)
	}()
	w, err := l.Watch()
	if err != nil {
		return 0, err
	}
	defer w.Leave()

	work, cancel := context.WithCancel(ctx)
	defer cancel()
	lease := access.Lease(p.Lease())
	defer lease.WhenOver(func(error) { cancel() })()
	for answered := false; ; answered = true {
		reply, err := engine.Ask(work, l, "await", true, &codec.Await{
			Lock: l.Ref(), Token: engine.TokenOf(lease), Number: number, Phase: at, Parties: l.Set.Limit, Passed: passed,
		})
		if err == nil {
			switch reply.Word {
			case codec.Tripped:
				next = reply.Phase + 1
				return reply.Phase, nil
			case codec.Broken:
				next = reply.Present
				return 0, p.broken(&reply)
			case codec.Gone, codec.Absent:
				return 0, engine.Expel(lease, reply.Word)
			case codec.Waiting:
				at = reply.Phase
				next = at
			case codec.Stale: // about a later await, which this party has not begun
				err = l.Malformed("await")
			}
		}
		failure := err
		if err == nil || answered && work.Err() == nil && engine.MayPass(err) {
			err = w.Wait(work, err == nil, reply.TTL)
		}
		if err != nil {
			if lost := p.Lease().Err(); lost != nil {
				return 0, lost
			}
			p.withdraw(number)
			return 0, engine.EndedBy(ctx, err, failure)
		}
	}
}

// broken returns the error of a broken phase.
func (p *Party) broken(reply *codec.AwaitReply) *BrokenError {
	info := reply.Info
	return &BrokenError{
		Name: p.lock.Name(), Phase: reply.Phase, Died: reply.Died,
		Party: holdfast.Holder{Identity: info.Owner, Host: info.Host, PID: info.PID, Meta: info.Meta},
	}
}

// withdraw takes an arrival back in the background, while the lease is held.
func (p *Party) withdraw(number uint64) {
	l, lease := p.lock, access.Lease(p.Lease())
	l.Of.Tasks.Run(func() {
		held, cancel := context.WithCancel(context.Background())
		defer cancel()
		defer lease.WhenOver(func(error) { cancel() })()
		for pause := 250 * time.Millisecond; lease.Err() == nil; pause = min(2*pause, 5*time.Second) {
			_, err := engine.Ask(held, l, "withdraw from", true, codec.Withdraw(l.Ref(), engine.TokenOf(lease), number))
			if err == nil || errors.Is(access.Error(err), holdfast.ErrMismatch) {
				return
			}
			select {
			case <-time.After(schedule.Jitter(pause, 20)):
			case <-held.Done():
			case <-l.Of.Closing:
				return
			}
		}
	})
}

// Leave ends the party's lease. Another party may join in its place. Its errors are those of holdfast.Lease.Release.
func (p *Party) Leave(ctx context.Context) error { return p.Lease().Release(ctx) }

// Lease returns the party's lease.
func (p *Party) Lease() *holdfast.Lease { return printable.Of(p.partyHandle) }
