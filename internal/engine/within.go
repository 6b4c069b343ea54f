package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// within is a context that carries a lease. Calls with it, or with a context made from it, are made within the lease.
type within struct {
	context.Context
	lease Lease
}

// withinKey is the key under which a within finds itself.
type withinKey struct{}

func (w *within) Value(key any) any {
	if key == (withinKey{}) {
		return w
	}
	return w.Context.Value(key)
}

// Within returns a context made from ctx that carries the lease. With it, a reentrant lock can be acquired again; any other acquire that
// would wait for the lease returns ErrDeadlock.
func Within(ctx context.Context, lease Lease) context.Context { return &within{ctx, lease} }

// outer returns the innermost held lease, of those carried by ctx, within which l can be acquired again (Reentrant), or nil. It returns
// ErrDeadlock if an acquire of l would wait for a lease that ctx carries.
func (l *Target) outer(ctx context.Context) (*holdLease, error) {
	w, _ := ctx.Value(withinKey{}).(*within)
	var own []*holdLease // leases of l that may leave too little room for another
	for ; w != nil; w, _ = w.Context.Value(withinKey{}).(*within) {
		for _, lease := range w.lease.singles() {
			switch {
			// mutants: ended-lease
			case !lease.isOf(l) || lease.Err() != nil:
			case l.canReenter(lease):
				return lease, nil
			case l.Set.Kind.Nesting == kind.WaitsForItself:
				// mutants: waits-for-itself
				return nil, l.deadlock(lease)
			case l.Set.Kind.Nesting == kind.WaitsForRoom && !slices.Contains(own, lease):
				own = append(own, lease)
			}
		}
	}
	if len(own) > 0 {
		return nil, l.checkRoom(ctx, own)
	}
	return nil, nil
}

// isOf reports whether the lease is one of that lock or, for a read-write lock, of its other side.
func (l *holdLease) isOf(lock *Target) bool {
	have := l.g.l
	return have.c == lock.c && have.Keys.Lock == lock.Keys.Lock && have.Set.Kind.Name == lock.Set.Kind.Name
}

// canReenter reports whether l can be acquired again within outer, a lease of the same lock.
func (l *Target) canReenter(outer *holdLease) bool {
	have, want := outer.g.l.Set, l.Set
	switch {
	case !have.Reentrant || !want.Reentrant:
		return false
	case want.Kind.ByOwner:
		return have.Owner == want.Owner
	}
	return want.Kind.Joinable || !have.Kind.Joinable
}

// deadlock returns the error of an acquire of l that would wait for outer, the lease within which it is made.
func (l *Target) deadlock(outer *holdLease) error {
	have, advice := outer.g.l.Set, "it would wait for itself; work within the lease that the caller has"
	switch {
	case have.Kind.Joinable && !l.Set.Kind.Joinable:
		advice = "a reader becomes a writer by TryUpgrade"
	case l.Set.Kind.ByOwner:
		advice = fmt.Sprintf("that lease is of owner %q", have.Owner)
	}
	return fmt.Errorf("%w: lock %q is acquired within a lease of it (fence %d): %s", lock.ErrDeadlock, l.Name(), outer.fence, advice)
}

// checkRoom returns ErrDeadlock if l wants more than the caller's own leases leave free, even if nobody else holds any of the lock.
func (l *Target) checkRoom(ctx context.Context, own []*holdLease) error {
	taken := int64(0)
	for _, lease := range own {
		taken += int64(lease.g.l.Set.Weight)
	}
	room := int64(l.Set.Limit)
	// mutants: own-permits
	if taken+int64(l.Set.Weight) <= room {
		return nil
	}
	// Resize may have overruled the caller's number. If the server does not answer, the acquire reports that.
	some, err := l.HoldersFrom(ctx, "0", 1)
	if err == nil && some.Limit > 0 {
		room = int64(some.Limit)
	}
	if err != nil || taken+int64(l.Set.Weight) <= room || int64(l.Set.Weight) > room {
		return nil
	}
	return fmt.Errorf("%w: lock %q: %d of %d are wanted within leases that have %d of them", lock.ErrDeadlock, l.Name(), l.Set.Weight, room, taken)
}

// reenter makes another lease within a lease of l. It returns nil if that lease has ended.
func (l *Target) reenter(outer *holdLease) (*holdLease, error) {
	h := outer.g
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case outer.over:
		return nil, nil
	case h.state == changing:
		return nil, fmt.Errorf("%w: lock %q cannot be acquired again while its lease is being upgraded, downgraded or detached", lock.ErrInvalid, l.Name())
	case l.Set.MaxDepth > 0 && int(outer.depth)+1 >= l.Set.MaxDepth:
		return nil, fmt.Errorf("%w: lock %q: its leases are nested %d deep already, the most that MaxDepth allows", lock.ErrDepth, l.Name(), l.Set.MaxDepth)
	}
	lease := h.join(outer.fence)
	lease.depth = outer.depth + 1
	return lease, nil
}
