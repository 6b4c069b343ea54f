package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// maxNames bounds how many locks are acquired as one, since one script looks at all of them.
const maxNames = 256

// multi is a group of locks acquired as one: those that the user named, or the same lock on each server of a quorum.
type multi struct {
	c      *Client // the first lock's client
	name   string
	set    *kind.Settings // the first lock's settings
	parts  []*Target
	err    error   // what is wrong with the names or options
	bounds *bounds // for all parts, once all are held; nil if there are none
}

// Name returns the joint name.
func (l *multi) Name() string { return l.name }

// Multi is holdfast.Client.Multi.
func (c *Client) Multi(names []string, opts ...kind.Option) Lock {
	l := &multi{c: c, name: strings.Join(names, ", "), set: &c.Defaults}
	for _, name := range names {
		l.parts = append(l.parts, c.Mutex(name, opts...))
	}
	if err := l.check(); err != nil {
		l.err = fmt.Errorf("%w: locks %.64q: %w", lock.ErrInvalid, l.name, err)
		return l
	}
	if l.set = l.parts[0].Set; !l.set.Unbounded() {
		l.bounds = &bounds{renew: l.set.Renew, maxHold: l.set.MaxHold, maxRenewals: l.set.MaxRenewals}
		for i, p := range l.parts {
			l.parts[i] = p.With(unbounded)
		}
	}
	return l
}

// unbounded makes a lock renew its leases without a bound. It does not raise the TTL.
func unbounded(s *kind.Settings) {
	s.TTL, s.Renew, s.MaxHold, s.MaxRenewals = s.Term(), true, 0, -1
}

// check returns an error if the locks cannot be acquired as one.
func (l *multi) check() error {
	if n := len(l.parts); n < 2 || n > maxNames {
		return fmt.Errorf("Multi of %d names is not possible; of 2 to %d it is", n, maxNames)
	}
	named := map[string]bool{}
	for _, p := range l.parts {
		switch {
		case p.Set.Err != nil:
			return p.Set.Err
		case named[p.Name()]:
			return fmt.Errorf("%q is named twice", p.Name())
		}
		named[p.Name()] = true
	}
	return nil
}

// AcquireBy implements Lock.
func (l *multi) AcquireBy(ctx context.Context, end time.Time) (Lease, error) {
	o, ctx := l.c.observe(ctx, l, false)
	acquire := func(asking context.Context) (Lease, error) { return leased(l.acquire(asking, end)) }
	try := func(asking context.Context) (Lease, error) { return leased(l.try(asking)) }
	return o.end(acquireBy(ctx, l.c, l.name, end, acquire, try, l.holder))
}

// TryAcquire implements Lock.
func (l *multi) TryAcquire(ctx context.Context) (Lease, error) {
	defer l.c.Enter().End()
	o, ctx := l.c.observe(ctx, l, true)
	if err := l.ready(ctx); err != nil {
		return o.end(nil, err)
	}
	return o.end(leased(l.try(ctx)))
}

func (l *multi) ready(ctx context.Context) error {
	if l.err != nil {
		return l.err
	}
	err := l.parts[0].Ready(ctx)
	if f, is := err.(*exec.Failure); is { // other callers may have it, too
		own := *f
		own.Name = l.name
		return &own
	}
	return err
}

// acquire acquires all parts: at once if possible, otherwise one by one.
func (l *multi) acquire(ctx context.Context, end time.Time) (*JointLease, error) {
	defer l.c.Enter().End() // Close waits for this acquire
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	if l.set.PollInterval > 0 {
		return poll(ctx, l.c, l.set, end, l.try)
	}
	lease, busy, err := l.tryAtOnce(ctx)
	if lease != nil || err != nil && !busy {
		return lease, err
	}
	for {
		lease, err := l.inOrder(ctx, func(p *Target, ctx context.Context) (Lease, error) { return p.acquireUnseen(ctx, end) })
		if !errors.Is(err, errStartOver) {
			return lease, err
		}
	}
}

// ordered returns the positions of the locks among the given names, in the order in which every caller acquires them.
func (l *multi) ordered() []int {
	order := make([]int, len(l.parts))
	for i := range order {
		order[i] = i
	}
	// mutants: canonical-order
	slices.SortFunc(order, func(i, j int) int { return strings.Compare(l.parts[i].Keys.Lock, l.parts[j].Keys.Lock) })
	return order
}

// try takes all parts if nobody holds or waits for any of them.
func (l *multi) try(ctx context.Context) (*JointLease, error) {
	lease, busy, err := l.tryAtOnce(ctx)
	if lease != nil || err != nil || !busy {
		return lease, err
	}
	lease, err = l.inOrder(ctx, func(p *Target, ctx context.Context) (Lease, error) { return leased(p.acquire(ctx, time.Time{}, true)) })
	if errors.Is(err, errStartOver) {
		err = &lock.LostError{Name: l.name, Reason: lock.LossExpired}
	}
	return lease, err
}

// tryAtOnce takes all parts with one script. busy reports that this is not possible now, or never is with these locks, but that taking them
// one by one may be; the error, if any, says why.
func (l *multi) tryAtOnce(ctx context.Context) (lease *JointLease, busy bool, err error) {
	again := false // one of the locks is acquired within a lease of it
	for _, p := range l.parts {
		outer, err := p.outer(ctx)
		if err != nil {
			return nil, false, err
		}
		again = again || outer != nil
	}
	if again || l.set.Kind.IsShared || !l.inOneSlot() {
		return nil, true, nil
	}
	attempts := make([]*attempt, len(l.parts))
	for i, p := range l.parts {
		attempts[i] = p.newAttempt()
	}
	grants, busy, err := l.askAtOnce(ctx, attempts)
	if grants == nil {
		for _, a := range attempts {
			a.Abandon()
		}
		return nil, busy, err
	}
	leases := make([]*holdLease, len(grants))
	for i, h := range grants {
		leases[i] = l.parts[i].keep(h)
	}
	return l.joinLeases(leases, grants[0].since()), false, nil
}

// joinLeases makes one lease from the leases of all locks. Its bounds count from since, when all were held.
func (l *multi) joinLeases(leases []*holdLease, since clock.Instant) *JointLease {
	if l.bounds != nil {
		b := *l.bounds
		b.since = since
		for _, lease := range leases {
			if lease.depth == 0 {
				lease.g.setBounds(b)
			}
		}
	}
	return (&JointLease{of: l, need: len(leases)}).joinParts(leases)
}

func (l *multi) askAtOnce(ctx context.Context, attempts []*attempt) (grants []*hold, busy bool, err error) {
	c := l.c
	q := codec.MultiAcquire{Flags: l.parts[0].Flags(), TTL: l.set.Term(), Info: l.set.Info}
	rq := lock.Request{Op: "acquire", Lock: &l.parts[0].Lock, Durable: true}
	for i, a := range attempts {
		rq.More = append(rq.More, &l.parts[i].Lock)
		lock := l.parts[i].Ref()
		q.Mark = lock.Keys.Mark
		q.Locks = append(q.Locks, codec.TokenOf{Keys: lock.Keys, Token: a.Token()})
	}
	for range 3 {
		q.NotAfter = l.parts[0].NotAfter()
		r, unanswered, err := lock.Ask(ctx, rq, &q)
		for _, a := range attempts {
			a.sent(unanswered, q.NotAfter)
			a.owed = a.owed || err != nil && !r.Sent.IsZero() || r.Reply.Word == codec.Granted
		}
		if err != nil {
			return nil, false, err
		}
		switch r.Reply.Word {
		case codec.Granted:
			for i, a := range attempts {
				h, err := a.takes(r.Sent, clock.Now(), r.Reply.Now, r.Reply.TTL, r.Reply.Fences[i], 1)
				if err != nil {
					return nil, false, err
				}
				grants = append(grants, h)
			}
			return grants, false, nil
		case codec.Queued:
			return nil, true, nil
		case codec.Quarantined:
			return nil, true, c.QuarantineError("acquire", l.name, r.Reply.Refusal.Quarantine)
		case codec.Held:
			p := l.parts[r.Reply.Count-1]
			return nil, true, &lock.HeldError{Name: p.Name(), Holder: p.HolderOf(r.Reply.Holder)}
		}
	}
	return nil, false, l.parts[0].ClockJumps("acquire")
}

// inOneSlot reports whether one script can take all the locks.
func (l *multi) inOneSlot() bool {
	first := l.parts[0].Slot()
	return !slices.ContainsFunc(l.parts, func(p *Target) bool { return p.Slot() != first })
}

// errStartOver reports that a lock was lost while the caller waited for the others.
var errStartOver = errors.New("lost while others were waited for")

// inOrder takes the locks one by one, as ordered says. After an error, none is held.
func (l *multi) inOrder(ctx context.Context, take func(*Target, context.Context) (Lease, error)) (_ *JointLease, err error) {
	leases := make([]*holdLease, len(l.parts))
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer func() {
		if err != nil {
			l.giveBack(leases)
		}
	}()
	for _, i := range l.ordered() {
		lease, err := take(l.parts[i], waiting)
		if context.Cause(waiting) == errStartOver {
			if lease != nil {
				leases[i] = lease.(*holdLease)
			}
			return nil, errStartOver
		}
		if err != nil {
			return nil, err
		}
		leases[i] = lease.(*holdLease)
		waiting = Within(waiting, lease)
		defer lease.WhenOver(func(error) { cancel(errStartOver) })()
	}
	since := clock.Now()
	if l.bounds != nil && !l.bounds.renew {
		// Each lock has been held for some time already, but the lease must have its full TTL.
		all := &JointLease{of: l, need: len(leases)}
		// mutants: full-ttl
		err := all.extend(waiting, leases, l.parts[0].Set.TTL)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, lock.ErrLost), context.Cause(waiting) == errStartOver:
			return nil, errStartOver
		default:
			return nil, err
		}
	}
	return l.joinLeases(leases, since), nil
}

// giveBack releases, in the background, the locks that were acquired before another one failed.
func (l *multi) giveBack(leases []*holdLease) {
	for _, lease := range leases {
		if lease != nil {
			// mutants: give-back
			l.c.Tasks.Run(func() { _ = lease.Release(context.Background()) })
		}
	}
}

// holder returns the holder of the first of the locks that has one.
func (l *multi) holder(ctx context.Context) (lock.Holder, error) {
	for _, p := range l.parts {
		if h, err := p.Holder(ctx); !errors.Is(err, lock.ErrNotHeld) {
			return h, err
		}
	}
	return lock.Holder{}, lock.ErrNotHeld
}

// Status returns the holders and waiters of all the locks.
func (l *multi) Status(ctx context.Context) (lock.Status, error) {
	if err := l.ready(ctx); err != nil {
		return lock.Status{}, err
	}
	all := lock.Status{Name: l.name, Form: l.set.Kind.Form}
	for _, p := range l.parts {
		s, err := p.Status(ctx)
		if err != nil {
			return lock.Status{}, err
		}
		all.Holders, all.Waiters = append(all.Holders, s.Holders...), append(all.Waiters, s.Waiters...)
		all.Waiting += s.Waiting
		all.Fence, all.Time = max(all.Fence, s.Fence), s.Time
	}
	return all, nil
}

// String names the locks.
func (l *multi) String() string { return fmt.Sprintf("holdfast.Lock(%q)", l.name) }
