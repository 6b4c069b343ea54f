package engine

import (
	"context"
	"fmt"
)

// Reentrant lets the holder of a Mutex, or of one side of an RWMutex, acquire the lock again
// without waiting and without asking the server. The holder does so with a context made from its
// lease's, that is from Lease.Context, or from the one that Do gives. Each such lease has the Token
// of the first and is released by itself, in any order; the last release gives the lock up.
// Whatever ends the lock for one of the leases ends it for all. Default false.
//
// The writer of an RWMutex may also acquire it for reading. A reader that wants to write gets
// ErrDeadlock: use TryUpgrade.
//
// A Mutex with Owner and Reentrant belongs to that owner, in whatever process. A caller that gives
// the same owner acquires it again in one round trip, without waiting and ahead of everyone in the
// queue. The server counts the owner's leases. Each has a TTL of its own, so that one whose process
// has crashed counts no longer than that. All leases that overlap have the same Token. ReleaseOwner
// ends a lease without having it. Such a lock is of another kind than a Mutex without these two
// options: all programs that use the name must give both, or they get ErrWrongType while it is
// held. The owner's name is at most 512 bytes, without control characters. It is not a secret, but
// it is all that is needed to get in.
func Reentrant(on bool) Option { return func(s *settings) { s.reentrant = on } }

// MaxDepth bounds how many leases of a Reentrant lock are nested: one more gets ErrDepth. For a
// lock with an Owner it also bounds how many leases the owner has on the server at a time; leases
// that are being released in the background still count. At least 1. Default: no bound.
func MaxDepth(n int) Option {
	return func(s *settings) {
		if n <= 0 {
			n = -1
		}
		s.maxDepth = n
	}
}

// reenter makes another lease out of the one that ctx carries. It returns nil if ctx carries none that is held, and
// ErrDeadlock if the lock would wait for one that ctx carries.
func (l *target) reenter(ctx context.Context) (*holdLease, error) {
	outer, err := l.outer(ctx)
	if outer == nil {
		return nil, err
	}
	h := outer.g
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case outer.ended != nil:
		return nil, nil
	case h.state == changing:
		return nil, fmt.Errorf("%w: lock %q cannot be acquired again while its lease is being upgraded, downgraded or detached", ErrInvalid, l.name)
	case l.set.maxDepth > 0 && int(outer.depth)+1 >= l.set.maxDepth:
		return nil, fmt.Errorf("%w: lock %q: its leases are nested %d deep already, the most that MaxDepth allows", ErrDepth, l.name, l.set.maxDepth)
	}
	lease := h.join(outer.fence)
	lease.depth = outer.depth + 1
	return lease, nil
}
