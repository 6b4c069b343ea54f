package engine

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// ReleaseOwner is holdfast.Client.ReleaseOwner. It returns a *NotOwnerError if another owner holds the lock, and ErrInvalid if the lock has
// no owner.
func (l *Target) ReleaseOwner(ctx context.Context) (left int, err error) {
	if l.Set.Err == nil && l.Set.Kind != &kind.Owned {
		return 0, fmt.Errorf("%w: lock %q: ReleaseOwner is for a Mutex with Owner and Reentrant", lock.ErrInvalid, l.Name())
	}
	defer l.c.Enter().End()
	if err := l.Ready(ctx); err != nil {
		return 0, err
	}
	reply, err := lock.Change(ctx, lock.Request{Op: "release", Lock: &l.Lock}, func(id string, notAfter int64) codec.Request[codec.Reply] {
		return codec.Disown(l.Ref(), id, l.Set.Owner, notAfter)
	})
	switch {
	case err != nil:
		return 0, err
	case reply.Word == codec.Free:
		return 0, fmt.Errorf("%w: lock %q has no lease that %q could release", lock.ErrNotHeld, l.Name(), l.Set.Owner)
	case reply.Word == codec.Held:
		return 0, &lock.NotOwnerError{Name: l.Name(), Owner: l.Set.Owner, Holder: l.HolderOf(reply.Holder)}
	}
	return int(reply.Count), nil
}

// tooDeep returns the error for an owner that has as many leases as MaxDepth allows.
func (l *Target) tooDeep() error {
	return fmt.Errorf("%w: lock %q: %q has %d leases already, the most that MaxDepth allows", lock.ErrDepth, l.Name(), l.Set.Owner, l.Set.MaxDepth)
}
