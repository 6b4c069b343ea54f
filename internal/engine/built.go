package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// This file is what packages that build on locks use of the engine: once, election, latch and barrier.

// Job returns the lock under which the job of that name runs.
//
// The lock is not passed on within the process: the next run would have the same token, and a request that is still under way when a run
// ends could take effect for it.
func (c *Client) Job(name string, opts ...kind.Option) *Target {
	given := []kind.Option{kind.Apart(kind.SeenAsOnce)}
	return c.Mutex(name, append(given, opts...)...)
}

// Electoral is a lock that can choose leaders.
type Electoral interface {
	Lock
	// AsElection returns the lock whose holders lead.
	AsElection() Electorate
}

// Electorate is a lock whose holders lead.
type Electorate interface {
	Lock
	Ready(ctx context.Context) error
	// MayPass reports whether trying again may help after an error that matches ErrUnavailable.
	MayPass(err error) bool
	// Announce tells watchers to look, in the background.
	Announce()
	// Differ reports whether a and b are different leaders, or leaders in different terms.
	Differ(a, b *lock.Holder) bool
	// Follow returns a Follower, which waits for a reason to look at the lock again.
	Follow() (Follower, error)
	Closing() <-chan struct{}
}

// Follower waits for a reason to look at a lock again. seen says that the latest look was answered; what that found may change after ttl,
// unless ttl is negative.
type Follower interface {
	Wait(ctx context.Context, seen bool, ttl time.Duration) error
	Leave()
}

// AsElection implements Electoral. Readers, and an owner's leases, cannot lead: each group has one fence.
func (l *Target) AsElection() Electorate {
	own := l.With(kind.Apart(kind.SeenAsElection))
	if k := l.Set.Kind; k.Joinable || k.ByOwner {
		own.refuse(fmt.Errorf("%w: lock %q: readers, or the leases of an owner, cannot lead: they have one fence", lock.ErrInvalid, l.Name()))
	}
	return own
}

// MayPass implements Electorate.
func (l *Target) MayPass(error) bool { return true }

// Announce implements Electorate. It drops errors: watchers look from time to time anyway.
func (l *Target) Announce() {
	channel := l.c.watchChannelOf(l).Name
	l.c.Tasks.Run(func() {
		_, _ = exec.Try(context.Background(), l.c.Server, l.c.Config.CommandTimeout, func(ctx context.Context) (lock.Answer[codec.Reply], error) {
			return lock.AskOnce(ctx, lock.Request{Op: "announce", Lock: &l.Lock}, codec.Announce(l.Ref(), channel))
		})
	})
}

// Differ implements Electorate.
func (l *Target) Differ(a, b *lock.Holder) bool { return a.Grant != b.Grant || a.Foreign != b.Foreign }

// Follow implements Electorate.
func (l *Target) Follow() (Follower, error) {
	w, err := l.Watch()
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Closing implements Electorate.
func (l *Target) Closing() <-chan struct{} { return l.c.Closing }

// AsElection implements Electoral. Watchers watch the first of the locks.
func (l *multi) AsElection() Electorate {
	own := *l
	own.parts = make([]*Target, len(l.parts))
	for i, p := range l.parts {
		own.parts[i] = p.With(kind.Apart(kind.SeenAsElection))
	}
	if len(own.parts) > 0 {
		own.set = own.parts[0].Set
	}
	return &electedMulti{own}
}

// electedMulti is a multi whose holders lead.
type electedMulti struct{ multi }

func (l *electedMulti) Ready(ctx context.Context) error { return l.ready(ctx) }
func (l *electedMulti) MayPass(error) bool              { return true }
func (l *electedMulti) Announce()                       { l.parts[0].Announce() }
func (l *electedMulti) Differ(a, b *lock.Holder) bool   { return l.parts[0].Differ(a, b) }
func (l *electedMulti) Follow() (Follower, error)       { return l.parts[0].Follow() }
func (l *electedMulti) Closing() <-chan struct{}        { return l.c.Closing }

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
func TokenOf(lease Lease) string { return lease.(*holdLease).g.attempt.token() }

// Ask sends a request about the lock until it is answered. If durable is true, the answer counts only once it is as durable as the lock.
func Ask[R any](ctx context.Context, l *Target, op string, durable bool, q codec.Request[R]) (R, error) {
	// An error about a job's record is not explained by what the lock's key holds.
	a, _, err := lock.Ask(ctx, lock.Request{Op: op, Lock: &l.Lock, Durable: durable, Unexplained: l.Set.SeenAs == kind.SeenAsOnce}, q)
	return a.Reply, err
}

// Change sends a request that takes effect once, however many copies of it are sent; see lock.Change.
func Change[R interface{ Is(codec.Word) bool }](ctx context.Context, l *Target, op string, compose func(id string, notAfter int64) codec.Request[R]) (R, error) {
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
