package engine

import (
	"context"
	"fmt"
)

// Reentrant lets whoever holds the lock, a Mutex or a side of an RWMutex, acquire it
// again, without waiting and without asking the server: with a context made from that of
// the lease, Lease.Context, or from the one that Do gives. Each such lease has the Token of
// the first and is released by itself, in any order; the last release gives the lock up.
// What ends the lock for one of them ends it for all. Default false.
//
// Who holds an RWMutex for writing may also read so. Who reads and wants to write gets
// ErrInvalid: that is for TryUpgrade.
//
// A Mutex with Owner, too, is that owner's, in whatever process: who names the same owner acquires
// it again without waiting, past all who queue, by one round trip. The server counts the
// owner's leases; each has a TTL of its own, so that one whose process crashed counts no longer
// than that. All leases that overlap so have the same Token. ReleaseOwner ends one without having it.
// Such a lock is another kind than a Mutex without these two options: all programs that use
// the name must give both, or get ErrWrongType while it is held. Owner is 512 bytes or less,
// without control characters; and not a secret, but whoever knows it is let in.
func Reentrant(on bool) Option { return func(s *settings) { s.reentrant = on } }

// MaxDepth bounds how many leases of a Reentrant lock are acquired within each other: one
// more gets ErrDepth. Of an owner that is named by Owner it also bounds how many leases it has from
// the server at a time; those that are being given back in the background count until they are.
// At least 1. Default: no bound.
func MaxDepth(n int) Option {
	return func(s *settings) {
		if n <= 0 {
			n = -1
		}
		s.maxDepth = n
	}
}

// entry is the key under which a context has the innermost lease of a lock.
type contextKey struct {
	c     *Client
	kind  string
	lock  string
	owner string // of a lock that owners have; or ""
}

func (l *Lock) entry() contextKey {
	e := contextKey{l.c, l.set.kind.name, l.keys.Lock, ""}
	if l.set.kind.byOwner {
		e.owner = l.set.owner
	}
	return e
}

// within returns ctx for those who have the lease, with which they may acquire the lock
// again.
func (l *Lease) within(ctx context.Context) context.Context {
	if l.many != nil {
		for _, p := range l.many.snapshot() {
			ctx = p.within(ctx)
		}
		return ctx
	}
	if !l.g.l.set.reentrant {
		return ctx
	}
	return context.WithValue(ctx, l.g.l.entry(), l)
}

// reenter makes another lease of the one under whose context ctx is; nil if there is none,
// or it is over.
func (l *Lock) reenter(ctx context.Context) (*Lease, error) {
	if !l.set.reentrant || l.parts != nil { // which are acquired again one by one
		return nil, nil
	}
	outer, _ := ctx.Value(l.entry()).(*Lease)
	if outer == nil {
		return nil, nil
	}
	h := outer.g
	h.mu.Lock()
	defer h.mu.Unlock()
	outer.check()
	switch {
	case outer.ended != nil:
		return nil, nil
	case h.state == changing:
		return nil, fmt.Errorf("%w: lock %q: the lease is being changed, and cannot be acquired again just now", ErrInvalid, l.name)
	case h.l.set.kind.joinable && !l.set.kind.joinable:
		return nil, fmt.Errorf("%w: lock %q: who reads cannot acquire it for writing; TryUpgrade does that where it is possible", ErrInvalid, l.name)
	case l.set.maxDepth > 0 && int(outer.depth)+1 >= l.set.maxDepth:
		return nil, fmt.Errorf("%w: lock %q: %d leases within each other are allowed (MaxDepth)", ErrDepth, l.name, l.set.maxDepth)
	}
	lease := h.join(ctx, outer.fence)
	lease.depth = outer.depth + 1
	return lease, nil
}
