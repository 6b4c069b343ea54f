package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Semaphore is a number of permits, each of which one holder has at a time. Permits makes the locks that take them.
//
// Waiters are served in their order; one that wants many permits is not passed by those that want few. The permits of a
// holder that crashed come back after its TTL.
type Semaphore struct {
	e       *engine.Semaphore
	options options
}

// Semaphore returns the semaphore of that name, with 1 to 1,000,000 permits. All that use it at the same time must say the
// same number: a program that says another gets ErrMismatch until nobody holds a permit, or until Resize has said how many
// there are. To change the number while old and new programs run beside each other, Resize to the new one first.
func (c *Client) Semaphore(name string, permits int, opts ...SemaphoreOption) *Semaphore {
	o := resolve(c.queued, opts)
	return &Semaphore{c.e.Semaphore(name, permits, o.given...), options{wait: o.wait}}
}

// Permits returns the lock that takes n permits at once, with further options. An n below 1 is ErrInvalid; one above the
// number of permits is ErrMismatch, which only the server can tell, since Resize may have changed the number.
func (s *Semaphore) Permits(n int, opts ...SemaphoreOption) *Lock {
	o := resolve(s.options, opts)
	return &Lock{s.e.Permits(n, o.given...), o.wait}
}

// Resize sets the number of permits for good, whatever clients say; 0 gives the choice back to them. At most 1,000,000.
//
// Nobody loses a permit: where more are held than there are now, none is granted until enough have been given back.
// Waiters that want more than there are get ErrMismatch. After ErrAmbiguous it may have been done or not; calling it again
// does no harm.
func (s *Semaphore) Resize(ctx context.Context, permits int) error {
	return leave(s.e.Resize(ctx, permits))
}

// Name returns the semaphore's name.
func (s *Semaphore) Name() string { return s.e.Lock().Name() }

// Status says who holds permits and who waits for them. It changes nothing.
func (s *Semaphore) Status(ctx context.Context) (Status, error) { return statusOf(ctx, s.e.Lock()) }

// String names the semaphore, for people.
func (s *Semaphore) String() string { return named("Semaphore", s.Name()) }
