package holdfast

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/option"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// Semaphore is a number of permits, each of which one holder has at a time. Permits makes the locks that take them. Waiters are
// served in their order; one that wants many permits is not passed by those that want few. The permits of a holder that crashed
// come back after its TTL.
type Semaphore struct {
	semaphoreHandle
	lock    *engine.Target // for one permit
	options option.Set
}

// Semaphore returns the semaphore of that name, with 1 to 1,000,000 permits. A program that says another number than others
// gets ErrMismatch until nobody holds a permit, or until Resize has said how many there are. To change the number while old and
// new programs run beside each other, Resize to the new one first.
func (c *Client) Semaphore(name string, permits int, opts ...SemaphoreOption) *Semaphore {
	o := option.Resolve(c.queued, opts)
	lock := c.e().Limited(&kind.Semaphore, name, permits, o.Given)
	return &Semaphore{printable.Name("holdfast.Semaphore", lock), lock, option.Set{Wait: o.Wait}}
}

type semaphoreHandle = printable.Handle[printable.Named]

// Permits returns the lock that takes n permits at once, with further options. An n below 1 is ErrInvalid; one above the
// number of permits is ErrMismatch, which only the server can tell, since Resize may have changed the number.
func (s *Semaphore) Permits(n int, opts ...SemaphoreOption) *Lock {
	o := option.Resolve(s.options, opts)
	return newLock(s.lock.With(slices.Concat(o.Given, []kind.Option{kind.Weight(n)})...), o.Wait)
}

// Resize sets the number of permits for good, whatever clients say, at most 1,000,000; 0 gives the choice back to them. Nobody
// loses a permit: where more are held than there are now, none is granted until enough have been given back. Waiters that want
// more than there are get ErrMismatch. After ErrAmbiguous it may have been done; calling it again does no harm.
func (s *Semaphore) Resize(ctx context.Context, permits int) error {
	return leave(s.lock.Resize(ctx, permits))
}

// Name returns the semaphore's name.
func (s *Semaphore) Name() string { return s.lock.Name() }

// Status says who holds permits and who waits for them. It changes nothing.
func (s *Semaphore) Status(ctx context.Context) (Status, error) { return statusOf(ctx, s.lock) }
