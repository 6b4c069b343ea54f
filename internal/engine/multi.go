package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/script"
)

// maxNames bounds how many locks are acquired as one: a script looks at all of them.
const maxNames = 256

// Multi returns a lock that is several Mutexes at once, all or none: those of 2 to 256
// names, each a name once. Who wants one of them alone, or others with it, waits for the same
// Mutex.
//
// When all are free, one round trip takes them (on a Cluster, where the names lie in one
// slot: those that begin with the same "{tag}" do). Otherwise they are acquired in an order
// that is the same for everybody, whatever order they are named in, each through its queue,
// while those that come before are held: so no two callers wait for each other, and none
// starves. Who acquires more locks within the lease keeps to an order himself. Locks of an
// owner, Owner with Reentrant, are always acquired one after another, never at once.
//
// The lease is lost when one of the locks is; the others are renewed no longer then, and
// end with Release or their TTL. Lease.Tokens has the fence of each. The leases are
// renewed, since the first may have to wait for the last: Renew(false), MaxHold,
// MaxRenewals, Key and Redisson are refused.
func (c *Client) Multi(names []string, opts ...Option) *Lock {
	l := c.newLock(strings.Join(names, ", "), nil)
	l.composition = &composition{}
	for _, name := range names {
		l.parts = append(l.parts, c.newLock(name, opts))
	}
	if err := l.checkParts(); err != nil {
		l.refuse(fmt.Errorf("%w: locks %.64q: %w", ErrInvalid, l.name, err))
		return l
	}
	l.set = l.parts[0].set
	return l
}

func (l *Lock) checkParts() error {
	if n := len(l.parts); n < 2 || n > maxNames {
		return fmt.Errorf("Multi of %d names is not possible; of 2 to %d it is", n, maxNames)
	}
	named := map[string]bool{}
	for _, p := range l.parts {
		switch {
		case p.set.err != nil:
			return p.set.err
		case p.set.kind.isShared() && !p.set.kind.byOwner:
			return errors.New("Weight has a meaning for semaphores only")
		case p.set.as != nil:
			return errors.New("Key and Redisson name one lock, and Multi has several")
		case !p.set.unbounded():
			return errors.New("Multi needs leases that are renewed without a bound: the first has to wait for the last")
		case named[p.name]:
			return fmt.Errorf("%q is named twice", p.name)
		}
		named[p.name] = true
	}
	return nil
}

// ordered returns the locks in the order in which everybody acquires them, and where each
// stands among those that were named.
func (l *Lock) ordered() []int {
	order := make([]int, len(l.parts))
	for i := range order {
		order[i] = i
	}
	// mutants: canonical-order
	slices.SortFunc(order, func(i, j int) int { return strings.Compare(l.parts[i].keys.Lock, l.parts[j].keys.Lock) })
	return order
}

// acquireAll acquires all parts: at once if it can, or else one after another.
func (l *Lock) acquireAll(ctx context.Context, end time.Time) (*Lease, error) {
	lease, busy, err := l.tryAtOnce(ctx)
	if lease != nil || err != nil && !busy {
		return lease, err
	}
	for {
		lease, err := l.inOrder(ctx, func(p *Lock, ctx context.Context) (*Lease, error) { return p.AcquireBy(ctx, end) })
		if !errors.Is(err, errStartOver) {
			return lease, err
		}
	}
}

// tryAll takes all parts if nobody has one of them or waits for it.
func (l *Lock) tryAll(ctx context.Context) (*Lease, error) {
	lease, busy, err := l.tryAtOnce(ctx)
	if lease != nil || err != nil || !busy {
		return lease, err
	}
	lease, err = l.inOrder(ctx, (*Lock).TryAcquire)
	if errors.Is(err, errStartOver) {
		err = &LostError{Name: l.name, Reason: LossExpired}
	}
	return lease, err
}

// tryAtOnce takes all parts by one script. busy says that this is not possible now, or never
// with these locks, though it may be for one after another; with an error if it says why.
func (l *Lock) tryAtOnce(ctx context.Context) (lease *Lease, busy bool, err error) {
	if l.set.kind.isShared() || l.reentered(ctx) || !l.inOneSlot() {
		return nil, true, nil
	}
	attempts := make([]*attempt, len(l.parts))
	for i, p := range l.parts {
		attempts[i] = p.newAttempt()
	}
	grants, busy, err := l.askAtOnce(ctx, attempts)
	if grants == nil {
		for _, a := range attempts {
			a.abandon()
		}
		return nil, busy, err
	}
	leases := make([]*Lease, len(grants))
	for i, h := range grants {
		leases[i] = h.begin(ctx)
	}
	return (&multiLease{l: l, need: len(leases)}).lease(ctx, leases), false, nil
}

func (l *Lock) askAtOnce(ctx context.Context, attempts []*attempt) (grants []*hold, busy bool, err error) {
	c := l.c
	for range 3 {
		notAfter := c.notAfter(l.parts[0])
		args := []string{l.flags(""), attempts[0].token(), milliseconds(l.set.term()), strconv.FormatInt(notAfter, 10), l.set.info}
		for _, a := range attempts[1:] {
			args = append(args, a.token())
		}
		r, unanswered, err := c.call(ctx, request{op: "acquire", lock: l.parts[0], script: script.MultiAcquire, more: l.parts[1:], args: args, durable: true})
		for _, a := range attempts {
			a.sent(unanswered, notAfter)
		}
		if err != nil {
			return nil, false, err
		}
		switch r.Word {
		case "late":
			continue
		case "queued":
			return nil, true, nil
		case "quarantined":
			if q, err := parseQuarantine(&r.Reply); err == nil {
				return nil, true, c.quarantineError("acquire", l.name, q)
			}
		case "held":
			var i int64
			if r.Ints(&i) == nil && i >= 1 && i <= int64(len(l.parts)) {
				p := l.parts[i-1]
				if h, err := p.parseHolder(&r.Reply); err == nil {
					return nil, true, &HeldError{Name: p.name, Holder: h}
				}
			}
		case "granted":
			return l.grantedAll(attempts, r)
		}
		return nil, false, l.malformed("acquire")
	}
	return nil, false, l.clockJumps("acquire")
}

// grantedAll makes grants of multi_acquire.lua's answer.
func (l *Lock) grantedAll(attempts []*attempt, r exec.Answer) ([]*hold, bool, error) {
	var pttl int64
	fences := make([]int64, len(attempts))
	numbers := []*int64{&pttl}
	for i, a := range attempts {
		a.owed = true
		numbers = append(numbers, &fences[i])
	}
	if r.Ints(numbers...) != nil || slices.Min(fences) <= 0 {
		return nil, false, l.malformed("acquire")
	}
	grants := make([]*hold, len(attempts))
	for i, a := range attempts {
		h, err := a.granted(r.Sent, clock.Now(), r.Now, pttl, uint64(fences[i]), 1)
		if err != nil {
			return nil, false, err
		}
		grants[i] = h
	}
	return grants, false, nil
}

// reentered reports whether ctx is that of a lease of one of the locks.
func (l *Lock) reentered(ctx context.Context) bool {
	return l.set.reentrant && slices.ContainsFunc(l.parts, func(p *Lock) bool { return ctx.Value(p.entry()) != nil })
}

// inOneSlot reports whether one script can take all the locks.
func (l *Lock) inOneSlot() bool {
	if !l.c.server.InCluster() {
		return true
	}
	first := keys.Slot(l.parts[0].keys.Lock)
	return !slices.ContainsFunc(l.parts, func(p *Lock) bool { return keys.Slot(p.keys.Lock) != first })
}

// errStartOver says that a lock was lost while others were waited for.
var errStartOver = errors.New("lost while others were waited for")

// inOrder takes one lock after another. Nothing is left of them after an error.
func (l *Lock) inOrder(ctx context.Context, take func(*Lock, context.Context) (*Lease, error)) (_ *Lease, err error) {
	leases := make([]*Lease, len(l.parts))
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
				leases[i] = lease
			}
			return nil, errStartOver
		}
		if err != nil {
			return nil, err
		}
		leases[i] = lease
		stop := context.AfterFunc(lease.Context(), func() { cancel(errStartOver) })
		defer stop()
	}
	return (&multiLease{l: l, need: len(leases)}).lease(ctx, leases), nil
}

// giveBack releases, in the background, the locks that were had before another failed.
func (l *Lock) giveBack(leases []*Lease) {
	for _, lease := range leases {
		if lease != nil {
			// mutants: give-back
			l.c.tasks.Run(func() { _ = lease.Release(context.Background()) })
		}
	}
}

func (l *Lock) holdersOfParts(ctx context.Context) ([]Holder, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	var all []Holder
	for _, p := range l.parts {
		holders, err := p.Holders(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, holders...)
	}
	return all, nil
}
