package engine

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// Semaphore is holdfast.Semaphore. A holder's weight is the number of its permits.
type Semaphore struct {
	lock *Target
}

// Semaphore returns the semaphore of that name, with 1 to 1,000,000 permits. All callers that use it at the same time must give the same
// number. A caller that gives another number gets ErrPermits until nobody holds a permit, or until Resize has set the number. To change the
// number while programs with the old one are still running, call Resize with the new one first.
func (c *Client) Semaphore(name string, permits int, opts ...kind.Option) *Semaphore {
	given := []kind.Option{kind.Of(&kind.Semaphore, permits, 1)}
	return &Semaphore{c.Mutex(name, append(given, opts...)...)}
}

// Lock returns the lock that takes one permit.
func (s *Semaphore) Lock() Lock { return s.lock }

// Permits returns the lock that takes n permits at once, with further options.
func (s *Semaphore) Permits(n int, opts ...kind.Option) Lock {
	return s.lock.With(append(opts[:len(opts):len(opts)], kind.Weight(n))...)
}

// Resize is holdfast.Semaphore.Resize.
func (s *Semaphore) Resize(ctx context.Context, permits int) error {
	l := s.lock
	if permits < 0 || permits > kind.MaxPermits {
		return fmt.Errorf("%w: lock %.64q: Resize to %d permits; the number must be between 0 and %d", lock.ErrInvalid, l.Name(), permits, kind.MaxPermits)
	}
	if err := l.Ready(ctx); err != nil {
		return err
	}
	_, _, err := lock.Ask(ctx, lock.Request{Op: "resize", Lock: &l.Lock}, codec.Resize(l.Ref(), l.Set.Kind.Name, permits))
	return err
}

// String names the semaphore, for people.
func (s *Semaphore) String() string { return fmt.Sprintf("holdfast.Semaphore(%q)", s.lock.Name()) }
