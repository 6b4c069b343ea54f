package virtual

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// The error of a caller that gave up waiting names the holder, and the number of waiters without the caller.
func TestAWaiterThatGaveUpIsNotCounted(t *testing.T) {
	for what, lock := range map[string]func(c *holdfast.Client) *holdfast.Lock{
		"mutex":     func(c *holdfast.Client) *holdfast.Lock { return c.Mutex("a") },
		"semaphore": func(c *holdfast.Client) *holdfast.Lock { return c.Semaphore("a", 1).Permits(1) },
		"writer":    func(c *holdfast.Client) *holdfast.Lock { return c.RWMutex("a").Writer() },
	} {
		t.Run(what, func(t *testing.T) {
			eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
				lease := acquire(t, lock(client(t, srv)))
				defer release(t, lease)
				l := lock(configured(t, srv, cfg, meddle(func(r request) (string, error) {
					if r.Urgent { // a release
						time.Sleep(100 * time.Millisecond)
					}
					return r.send()
				})))
				for round := range 3 { // the first waiter asks before it is subscribed, those after it when they are
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					if _, err := l.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
						t.Fatal(err)
					}
					cancel()
					if waiting, err := backend.Waiting(t.Context(), l); err != nil || waiting != 0 {
						t.Errorf("round %d: %d are counted that wait: %v", round, waiting, err)
					}
				}
				other := wait(t, l)
				ctx := lasting(t, time.Second)
				if _, err := l.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				begun := time.Now()
				if waiting, err := backend.Waiting(t.Context(), l); err != nil || waiting != 1 || time.Since(begun) > 50*time.Millisecond {
					t.Errorf("%d are counted that wait, and one does: %v, after %s", waiting, err, time.Since(begun))
				}
				other.giveUp()
			})
		})
	}
}
