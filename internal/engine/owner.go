package engine

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/script"
)

// owned is a mutex that an owner has, who can acquire it again from any process. Each of the owner's leases has a part
// of it.
var owned = shared("own", kind{
	byOwner: true,
	share: func(s *settings) (limit, wish string) {
		limit, wish = byWeight(s)
		if s.maxDepth > 0 {
			limit = strconv.Itoa(s.maxDepth)
		}
		return limit, wish + "\n" + s.owner
	},
	check: func(s *settings) error { return keys.Check("owner", s.owner) },
})

// ReleaseOwner ends one lease that the lock's owner has, Owner with Reentrant, whichever process has
// it: the one that would expire first. That is likely to be one that a process left behind
// which is no more; but one with a shorter TTL, or a waiter that was handed the lock a moment ago, comes
// before it, and so may the caller's own. Leases that were acquired under one's context end with it, and
// count as one. Whoever has the lease is told, with ErrLost, by its next renewal; one that is not
// renewed any more believes in it until its deadline. ReleaseOwner returns how many leases the
// owner has left; with the last the lock goes to the next in the queue. So a job's last step can
// give up what an earlier one took.
//
// Once begun, it works also when ctx ends, for as long as RetryTimeout.
//
// Errors: ErrNotHeld when nobody has the lock: it has expired, or was released; a
// *NotOwnerError, which matches ErrNotOwner, when another owner has it. Neither changes
// anything. ErrInvalid for a lock without these options; otherwise those of Lease.Release.
// After an Ambiguous error the lease may have been ended; calling again could end another.
func (l *Lock) ReleaseOwner(ctx context.Context) (left int, err error) {
	if l.set.err == nil && (l.set.kind != &owned || l.parts != nil) {
		return 0, fmt.Errorf("%w: lock %q: ReleaseOwner is for a Mutex with Owner and Reentrant", ErrInvalid, l.name)
	}
	l.c.tasks.Begin()
	defer l.c.tasks.End()
	if err := l.ready(ctx); err != nil {
		return 0, err
	}
	a, err := l.callOnce(ctx, request{op: "release", script: script.ShareDisown, urgent: true}, l.set.owner)
	if err != nil {
		return 0, err
	}
	switch a.Word {
	case "free":
		return 0, fmt.Errorf("%w: lock %q, of which %q releases one", ErrNotHeld, l.name, l.set.owner)
	case "held":
		h, err := l.parseHolder(&a.Reply)
		if err != nil {
			return 0, err
		}
		return 0, &NotOwnerError{Name: l.name, Owner: l.set.owner, Holder: h}
	case "released":
		var n int64
		if a.Ints(&n) == nil {
			return int(n), nil
		}
	}
	return 0, l.malformed("release")
}

// tooDeep is the error of one that would be a lease too many.
func (l *Lock) tooDeep() error {
	return fmt.Errorf("%w: lock %q: %d leases at a time are allowed (MaxDepth), and %q has as many", ErrDepth, l.name, l.set.maxDepth, l.set.owner)
}
