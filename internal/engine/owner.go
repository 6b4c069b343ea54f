package engine

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/kind"
)

// ReleaseOwner is holdfast.Client.ReleaseOwner. If another owner holds the lock, the error is a *NotOwnerError. It is ErrInvalid
// for a lock without an owner.
func (l *Target) ReleaseOwner(ctx context.Context) (left int, err error) {
	if l.set.Err == nil && l.set.Kind != &kind.Owned {
		return 0, fmt.Errorf("%w: lock %q: ReleaseOwner is for a Mutex with Owner and Reentrant", ErrInvalid, l.name())
	}
	defer l.c.enter().End()
	if err := l.ready(ctx); err != nil {
		return 0, err
	}
	reply, err := askOf(ctx, request{op: "release", lock: l}, func(id string, notAfter int64) codec.Request[codec.DisownReply] {
		return &codec.Disown{Lock: l.ref(), ID: id, Owner: l.set.Owner, NotAfter: notAfter}
	})
	switch {
	case err != nil:
		return 0, err
	case reply.Word == codec.Free:
		return 0, fmt.Errorf("%w: lock %q has no lease that %q could release", ErrNotHeld, l.name(), l.set.Owner)
	case reply.Word == codec.Held:
		return 0, &NotOwnerError{Name: l.name(), Owner: l.set.Owner, Holder: l.holderOf(&reply.Holder)}
	}
	return reply.Left, nil
}

// tooDeep returns the error for an owner that has all the leases it may have.
func (l *Target) tooDeep() error {
	return fmt.Errorf("%w: lock %q: %q has %d leases already, the most that MaxDepth allows", ErrDepth, l.name(), l.set.Owner, l.set.MaxDepth)
}
