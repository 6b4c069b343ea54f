package engine

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// This file has what only some kinds of locks can do.

// Limited returns the lock of that kind and name, of which each holder takes 1 of limit: the permits of a semaphore or the parties of a
// latch, 1 to 1,000,000, or the parties of a barrier, 1 to 10,000.
func (c *Client) Limited(of *kind.Kind, name string, limit int, opts []kind.Option) *Target {
	return c.Mutex(name, append([]kind.Option{kind.Of(of, limit, 1)}, opts...)...)
}

// Resize is holdfast.Semaphore.Resize.
func (l *Target) Resize(ctx context.Context, permits int) error {
	if permits < 0 || permits > kind.MaxPermits {
		return fmt.Errorf("%w: lock %.64q: Resize to %d permits; the number must be between 0 and %d", lock.ErrInvalid, l.Name(), permits, kind.MaxPermits)
	}
	if err := l.Ready(ctx); err != nil {
		return err
	}
	_, _, err := lock.Ask(ctx, lock.Request{Op: "resize", Lock: &l.Lock}, codec.Resize(l.Ref(), l.Set.Kind.Name, permits))
	return err
}

// ReleaseOwner is holdfast.Client.ReleaseOwner. It returns ErrNotOwner if another owner holds the lock, and ErrInvalid if the lock has no owner.
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
		return 0, &lock.HeldError{Name: l.Name(), Sought: l.Set.Owner, Holder: l.HolderOf(reply.Holder)}
	}
	return int(reply.Count), nil
}

// CountDown ends the lease of a latch's party. The server then lowers the count, once. If it is unknown whether the party was counted, a
// later Release tries again.
func CountDown(ctx context.Context, party Lease) error {
	return party.(*holdLease).release(ctx, hasCountedDown)
}

// Expel ends the lease of a party that the server no longer knows, as word, from its reply, says. It returns the lease's error.
func Expel(party Lease, word codec.Word) error {
	l := party.(*holdLease)
	h := l.g
	h.mu.Lock()
	defer h.mu.Unlock()
	l.check(clock.Now())
	if !l.over {
		h.lose(h.l.Missing(word))
	}
	return l.ended()
}
