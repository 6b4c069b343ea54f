package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// This file is what packages that build on locks use of the engine: once, election, latch and barrier; and holdfasttest.

// Job returns the lock under which the job of that name runs.
//
// The lock is not passed on within the process: the next run would have the same token, and a request that is still under way when a run
// ends could take effect for it.
func (c *Client) Job(name string, opts ...kind.Option) *Target {
	given := []kind.Option{kind.Apart(kind.SeenAsOnce)}
	return c.Mutex(name, append(given, opts...)...)
}

// Electorate is a lock whose holders lead.
type Electorate struct {
	Lock
	Client  *Client
	On      *Target // where leaders announce changes: the lock, or the first of several; nil on a quorum, where nobody announces anything
	Ready   func(ctx context.Context) error
	MayPass func(err error) bool         // whether trying again may help after an error that matches ErrUnavailable
	Differ  func(a, b *lock.Holder) bool // whether they are different leaders, or leaders in different terms
}

// AsElection implements Lock. Readers, and an owner's leases, cannot lead: each group has one fence.
func (l *Target) AsElection() *Electorate {
	own := l.With(kind.Apart(kind.SeenAsElection))
	if k := l.Set.Kind; k.Joinable || k.ByOwner {
		own.Set = own.Set.Copy()
		own.Set.Err = fmt.Errorf("%w: lock %q: readers, or the leases of an owner, cannot lead: they have one fence", lock.ErrInvalid, l.Name())
	}
	return newElectorate(own, l.c, own, own.Ready)
}

// AsElection implements Lock. Watchers watch the first of the locks.
func (l *multi) AsElection() *Electorate {
	own := *l
	own.parts = make([]*Target, len(l.parts))
	for i, p := range l.parts {
		own.parts[i] = p.With(kind.Apart(kind.SeenAsElection))
	}
	if len(own.parts) == 0 {
		return newElectorate(&own, l.c, nil, own.ready)
	}
	own.set = own.parts[0].Set
	return newElectorate(&own, l.c, own.parts[0], own.ready)
}

func newElectorate(l Lock, c *Client, on *Target, ready func(context.Context) error) *Electorate {
	return &Electorate{
		Lock: l, Client: c, On: on, Ready: ready,
		MayPass: func(error) bool { return true },
		Differ:  func(a, b *lock.Holder) bool { return a.Grant != b.Grant || a.Foreign != b.Foreign },
	}
}

// Announce tells watchers to look, in the background. It drops errors: watchers look from time to time anyway.
func (e *Electorate) Announce() {
	l := e.On
	if l == nil {
		return
	}
	l.c.Tasks.Run(func() {
		_, _ = exec.Try(context.Background(), l.c.Server, l.c.Config.CommandTimeout, func(ctx context.Context) (lock.Answer[codec.Reply], error) {
			return lock.AskOnce(ctx, lock.Request{Op: "announce", Lock: &l.Lock}, codec.Announce(l.Ref(), l.c.watchChannelOf(l).Name))
		})
	})
}

// Follow returns a Watcher, which waits for a reason to look at the lock again.
func (e *Electorate) Follow() (*Watcher, error) {
	if e.On == nil {
		return &Watcher{c: e.Client}, nil
	}
	return e.On.Watch()
}

// CheckNesting returns ErrDeadlock if an acquire would wait for a lease that ctx carries.
func (l *Target) CheckNesting(ctx context.Context) error {
	_, err := l.outer(ctx)
	return err
}

// AskingBy returns the context for a request that must be answered by end, unless end is zero.
func (l *Target) AskingBy(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	return l.c.asking(ctx, end)
}

// Unanswered returns the error of an acquire whose time to wait passed before the server answered.
func (l *Target) Unanswered(err error) error { return l.c.unanswered(l.Name(), err) }

// TokenOf returns the token of a lease of one lock.
func TokenOf(lease Lease) string { return lease.(*holdLease).g.attempt.Token() }

// Ask sends a request about the lock until it is answered. If durable is true, the answer counts only once it is as durable as the lock.
func Ask[R any](ctx context.Context, l *Target, op string, durable bool, q codec.Request[R]) (R, error) {
	// An error about a job's record is not explained by what the lock's key holds.
	a, _, err := lock.Ask(ctx, lock.Request{Op: op, Lock: &l.Lock, Durable: durable, Unexplained: l.Set.SeenAs == kind.SeenAsOnce}, q)
	return a.Reply, err
}

// Change sends a request that takes effect once, however many copies of it are sent; see lock.Change.
func Change(ctx context.Context, l *Target, op string, compose func(id string, notAfter int64) codec.Request[codec.Reply]) (codec.Reply, error) {
	return lock.Change(ctx, lock.Request{Op: op, Lock: &l.Lock, Durable: true}, compose)
}

// MayPass reports whether a waiter should go on after an error of a request.
func MayPass(err error) bool { return exec.Passing(exec.KindOf(err)) }

// EndedBy returns the error of a call that ended with over: over itself, unless ctx has ended; then ctx's error, with failure, the error of
// the latest request to the server.
func EndedBy(ctx context.Context, over, failure error) error {
	if ctx.Err() == nil {
		return over
	}
	return exec.EndedBy(ctx, failure)
}

// Suspend makes the client start nothing by itself until resume is called, as in a suspended process: clocks run on, but nothing is
// renewed, and no lease ends by its deadline. Whatever became due meanwhile has begun when resume returns. The driver has to hold back what
// is under way.
func (c *Client) Suspend() (resume func()) { return c.schedule.Hold() }

// Starve makes the client stop renewing its leases of a lock, so that they end at their deadlines. left returns roughly how long the server
// still keeps the longest of them; 0 if all are past their deadlines. left is nil if the client has no lease of the lock.
func (c *Client) Starve(name string) (left func() time.Duration) {
	starved := c.holdsOf(name)
	if starved == nil {
		return nil
	}
	for _, h := range starved {
		h.setBounds(bounds{maxRenewals: -1, since: clock.Now()})
	}
	return func() (longest time.Duration) {
		for _, h := range starved {
			longest = max(longest, h.left())
		}
		return longest
	}
}

// GrantsOf returns the grant ids of the client's holds of a lock; nil if it has none.
func (c *Client) GrantsOf(name string) (ids []string) {
	for _, h := range c.holdsOf(name) {
		ids = append(ids, h.grant().id)
	}
	return ids
}

// holdsOf returns the client's live holds of a lock.
func (c *Client) holdsOf(name string) (holds []*hold) {
	for _, h := range c.scheduledHolds() {
		if h.l.Name() == name && h.isLive() {
			holds = append(holds, h)
		}
	}
	return holds
}

// left returns roughly how long the server keeps the hold unless it is renewed; 0 if the hold is over or has expired.
func (h *hold) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	remaining := h.remainingAt(clock.Now())
	if h.state == over || remaining <= 0 {
		return 0
	}
	return remaining + 2*drift(h.valid) // more than drift has brought the deadline forward by
}
