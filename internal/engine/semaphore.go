package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/script"
)

// semaphore is a lock of which holders have as many permits as they want.
var semaphore = shared("sem", kind{
	check: func(s *settings) error {
		switch {
		case s.limit < 1 || s.limit > maxPermits:
			return fmt.Errorf("%d permits are not possible; 1 to %d are", s.limit, maxPermits)
		case s.weight < 1 || s.weight > maxPermits:
			return fmt.Errorf("a Weight of %d is not possible; 1 to %d is", s.weight, maxPermits)
		case s.reentrant:
			return errors.New("Reentrant has no meaning for a semaphore: its permits are counted")
		}
		return nil
	},
})

// Semaphore is a number of permits, each of which one holder has at a time. Acquire and
// the other methods of its Lock take as many as Weight says: 1, if it says nothing.
// Waiters are served in their order; one that wants many is not passed by those who want
// few. The permits of a holder that crashed come back after its TTL.
//
// Lease.Token rises with every grant. It tells which of two grants was later, but not that
// the earlier one is over: others may hold permits at the same time.
type Semaphore struct {
	*Lock
}

// Semaphore returns the semaphore of that name, with so many permits, 1 to 1,000,000. All
// that use it at the same time must name the same number: who names another gets
// ErrPermits, until nobody holds a permit; or until Resize has said how many there are. To
// change the number while programs that name the old one run beside those that name the new
// one, Resize to the new one first.
func (c *Client) Semaphore(name string, permits int, opts ...Option) *Semaphore {
	given := []Option{func(s *settings) { s.kind, s.limit, s.weight = &semaphore, permits, 1 }}
	return &Semaphore{c.newLock(name, append(given, opts...))}
}

// Weight says how many permits of a semaphore an acquire takes. More than there are is
// ErrPermits, which the server says: what the caller names may not count (Resize). Default 1.
func Weight(n int) Option {
	return func(s *settings) {
		if n <= 0 || s.kind == &reader || s.kind == &writer { // which has its weight already
			n = -1
		}
		s.weight = n
	}
}

// Resize sets the number of permits for good: from then on it is what the server says,
// also when nobody holds one, and what clients name is ignored. With 0 the server
// forgets it, and what they name holds again.
//
// Nobody loses a permit: where more are held than there are now, none is granted until
// enough have been given back. Waiters that want more than there are get ErrPermits.
func (s *Semaphore) Resize(ctx context.Context, permits int) error {
	l := s.Lock
	if permits < 0 || permits > maxPermits {
		return fmt.Errorf("%w: lock %.64q: Resize to %d permits; 0 to %d are possible", ErrInvalid, l.name, permits, maxPermits)
	}
	if err := l.ready(ctx); err != nil {
		return err
	}
	a, _, err := l.c.call(ctx, request{
		op: "resize", lock: l, script: script.ShareResize,
		args: []string{l.flags(""), "", l.set.kind.name, strconv.Itoa(permits)},
	})
	if err == nil && a.Word != "resized" {
		err = l.malformed("resize")
	}
	return err
}
