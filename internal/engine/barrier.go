package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// barrier is the lock whose holders are the parties of a barrier.
var barrier = shared(codec.Barrier, kind{
	nesting:    waitsForRoom,
	hasParties: true,
	check:      atMost(maxArrivals),
})

// Barrier is where a number of parties wait for each other, again and again: no party begins its
// next phase before all have arrived at the end of the current one. Each party has a lease. If a
// party dies, the others wait for it only until its lease expires; the phase is then broken, and
// all of them are told.
type Barrier struct {
	lock *target
}

// Barrier returns the barrier of that name, for 1 to 10,000 parties. All that use it at the same
// time must give the same number, or they get ErrParties. The options are for the parties' leases.
func (c *Client) Barrier(name string, parties int, opts ...Option) *Barrier {
	given := []Option{func(s *settings) { s.kind, s.limit, s.weight = &barrier, parties, 1 }}
	return &Barrier{c.newLock(name, append(given, opts...))}
}

// BrokenError says that a phase of a barrier was broken: a party left or died before all had
// arrived. It matches ErrBroken.
type BrokenError struct {
	Name  string
	Phase uint64
	Died  bool // the party's lease was lost or has expired; otherwise it was released
	// Party is the one that broke the phase. If several phases have been broken since, it is the
	// one that broke the latest.
	Party Holder
}

func (e *BrokenError) Error() string {
	how := "left"
	if e.Died {
		how = "died"
	}
	return fmt.Sprintf("holdfast: phase %d of barrier %q is broken: party %s (pid %d on %s) has %s",
		e.Phase, e.Name, exec.Shown(e.Party.Owner), e.Party.PID, exec.Shown(e.Party.Host), how)
}

// Is makes a BrokenError match ErrBroken.
func (e *BrokenError) Is(target error) bool { return target == ErrBroken }

// Lock returns the lock of which parties have leases.
func (b *Barrier) Lock() Lock { return b.lock }

// Name returns the barrier's name.
func (b *Barrier) Name() string { return b.lock.name() }

// Join makes the caller a party. If the barrier has all its parties, Join waits until one leaves or
// dies; those that wait are served in order. Errors are those of Lock.Acquire.
func (b *Barrier) Join(ctx context.Context) (*BarrierParty, error) {
	return b.join(ctx, func(ctx context.Context) (*holdLease, error) { return b.lock.acquireLease(ctx, time.Time{}) })
}

// TryJoin makes the caller a party if the barrier lacks one and nobody is waiting to join.
// Otherwise it returns a *HeldError, which matches ErrHeld. Other errors are those of
// Lock.TryAcquire.
func (b *Barrier) TryJoin(ctx context.Context) (*BarrierParty, error) {
	return b.join(ctx, b.lock.tryAcquire)
}

func (b *Barrier) join(ctx context.Context, acquire func(context.Context) (*holdLease, error)) (*BarrierParty, error) {
	lease, err := acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &BarrierParty{holdLease: lease}, nil
}

// BarrierParty is a party of a barrier, and its lease. If the lease is released or lost, the
// current phase is broken for all parties that have joined, whether they await it now or later.
// Another party may then join in its place, and the next phase begins.
type BarrierParty struct {
	*holdLease

	mu       sync.Mutex
	awaiting bool
	number   uint64 // of calls of Await
	phase    uint64 // that the next Await arrives at; 0 for the one that was current when the party joined
	passed   uint64 // the latest phase that has tripped
}

// Lease returns the party's lease.
func (p *BarrierParty) Lease() Lease { return p.holdLease }

// Await is holdfast.BarrierParty.Await.
func (p *BarrierParty) Await(ctx context.Context) (phase uint64, err error) {
	l := p.lock()
	defer l.c.enter().End()
	if l.c.isClosing() {
		return 0, exec.ErrClosed
	}
	if err := p.Err(); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	number, at, passed, err := p.beginAwait()
	if err != nil {
		return 0, err
	}
	next := at
	defer func() { p.endAwait(next, phase) }()
	w, err := l.c.watch(l)
	if err != nil {
		return 0, err
	}
	defer w.leave()

	work, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.Context(), cancel)()
	for answered := false; ; answered = true {
		a, _, err := ask(work, l.c, request{op: "await", lock: l, durable: true}, &codec.Await{
			Lock: l.ref(), Token: p.g.attempt.token(), Number: number, Phase: at, Parties: l.set.limit, Passed: passed,
		})
		reply := a.reply
		if err == nil {
			switch reply.Word {
			case codec.Tripped:
				next = reply.Phase + 1
				return reply.Phase, nil
			case codec.Broken:
				next = reply.Present
				return 0, p.broken(&reply)
			case codec.Gone, codec.Absent:
				return 0, p.expelled(reply.Word)
			case codec.Waiting:
				at = reply.Phase
				next = at
			case codec.Stale: // of a later await: of none that this party has begun
				err = l.malformed("await")
			}
		}
		failure := err
		if err == nil || answered && work.Err() == nil && exec.Passing(exec.KindOf(err)) {
			err = w.wait(work, err == nil, reply.TTL)
		}
		if err != nil {
			if lost := p.Err(); lost != nil {
				return 0, lost
			}
			p.withdraw(number)
			if ctx.Err() != nil {
				return 0, exec.EndedBy(ctx, failure)
			}
			return 0, err
		}
	}
}

// beginAwait begins an Await, and endAwait ends it. passed is the phase that has tripped, or 0.
func (p *BarrierParty) beginAwait() (number, phase, passed uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.awaiting {
		return 0, 0, 0, fmt.Errorf("%w: barrier %q: the party is already awaiting a phase", ErrInvalid, p.Name())
	}
	p.awaiting = true
	p.number++
	return p.number, p.phase, p.passed, nil
}

func (p *BarrierParty) endAwait(next, passed uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awaiting, p.phase, p.passed = false, next, max(p.passed, passed)
}

// broken returns the error of a phase that is broken.
func (p *BarrierParty) broken(reply *codec.AwaitReply) *BrokenError {
	info := reply.Info
	return &BrokenError{
		Name: p.Name(), Phase: reply.Phase, Died: reply.Died,
		Party: Holder{Owner: info.Owner, Host: info.Host, PID: info.PID, Meta: info.Meta},
	}
}

// expelled ends the lease of a party that the server, in a reply with that word, no longer knows. It returns the lease's
// error.
func (p *BarrierParty) expelled(word codec.Word) error {
	h := p.g
	h.mu.Lock()
	defer h.mu.Unlock()
	p.check()
	if !p.over {
		h.lose(h.l.missing(word))
	}
	return p.ended()
}

// withdraw takes an arrival back in the background, while the lease is held.
func (p *BarrierParty) withdraw(number uint64) {
	l := p.lock()
	l.c.tasks.Run(func() {
		for pause := 250 * time.Millisecond; p.Err() == nil; pause = min(2*pause, 5*time.Second) {
			_, _, err := ask(p.Context(), l.c, request{op: "withdraw from", lock: l, durable: true},
				&codec.Withdraw{Lock: l.ref(), Token: p.g.attempt.token(), Number: number})
			if err == nil || errors.Is(err, exec.ErrWrongType) {
				return
			}
			select {
			case <-time.After(schedule.Jitter(pause, 20)):
			case <-p.Context().Done():
			case <-l.c.closing:
				return
			}
		}
	})
}
