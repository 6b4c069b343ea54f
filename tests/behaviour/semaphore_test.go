package behaviour

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// A waiter that wants more permits than there are after a resize is told so, and does not block those behind it, be they of
// another process or of its own.
func TestResizeBelowWhatAWaiterWants(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		s := c.Semaphore("s", 3)
		for behind, light := range map[string]*holdfast.Lock{"of another process": b.Client(t, nil).Semaphore("s", 3).Permits(1), "of its own process": s.Permits(1)} {
			one := backend.Acquire(t, b.Client(t, nil).Semaphore("s", 3).Permits(1))
			failed := async(func() error {
				return expect.ErrOf(c.Semaphore("s", 3).Permits(3, holdfast.TTL(5*time.Second)).Acquire(t.Context()))
			})
			backend.Waiters(t, s.Permits(1), 1)
			next := backend.Start(t, light)
			if behind == "of another process" {
				backend.Waiters(t, s.Permits(1), 2)
			}
			wantAsleep(t, "the light one behind the heavy one", next)
			expect.OK(t, s.Resize(t.Context(), 2))
			backend.Release(t, backend.Receive(t, next))
			backend.Release(t, one)
			expect.Err(t, "the heavy one, before one "+behind, <-failed, holdfast.ErrMismatch)
			expect.OK(t, s.Resize(t.Context(), 0))
			b.Cleaned(t)
		}
	})
}
