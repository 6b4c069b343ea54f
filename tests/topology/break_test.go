package topology

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Locks of all masters are broken: their holders are told, and those that wait have them.
func TestBreakInACluster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		open := clusterOf(startCluster(t, bin))
		c, other := open.client(t, nil), open.client(t, nil)
		in := inspect.New(open.client(t, &holdfast.Config{Identity: "operator"}))
		for i := range 6 {
			name := fmt.Sprint("broken/", i)
			for kind, lock := range map[string]func(c *holdfast.Client) *holdfast.Lock{
				"mutex": func(c *holdfast.Client) *holdfast.Lock { return c.Mutex(name, holdfast.TTL(time.Hour)) },
				"permits": func(c *holdfast.Client) *holdfast.Lock {
					return c.Semaphore(name, 1, holdfast.TTL(time.Hour)).Permits(1)
				},
			} {
				lease := backend.Acquire(t, lock(c))
				leases := backend.Start(t, lock(other))
				backend.Waiters(t, lock(c), 1)
				seen := backend.Seen(t, in, name, lease.Fence())
				if err := in.Revoke(t.Context(), seen, "test"); err != nil {
					t.Fatalf("%s %s: Revoke: %v", kind, name, err)
				}
				backend.Told(t, "the holder is asked", lease.Revoked())
				broken, err := in.Break(t.Context(), seen, "test")
				if err != nil {
					t.Fatalf("%s %s: Break: %v", kind, name, err)
				}
				backend.Told(t, "the holder is told of the loss", lease.Done())
				var lost *holdfast.LostError
				if !errors.As(lease.Err(), &lost) || lost.Reason != holdfast.LossBroken || lost.By != "operator" {
					t.Errorf("%s %s: the holder: %v", kind, name, lease.Err())
				}
				next := backend.Receive(t, leases)
				if next.Fence() <= broken.Fence || broken.Fence <= lease.Fence() {
					t.Errorf("%s %s: the fences are %d, %d and %d", kind, name, lease.Fence(), broken.Fence, next.Fence())
				}
				backend.Release(t, next)
			}
		}
		breaks, revocations := 0, 0
		for b, err := range in.History(t.Context()) {
			if err != nil || b.By != "operator" {
				t.Errorf("on record: %+v, %v", b, err)
			}
			if b.Revoked {
				revocations++
			} else {
				breaks++
			}
		}
		if breaks != 12 || revocations != 12 {
			t.Errorf("%d breaks and %d revocations are on record", breaks, revocations)
		}
	})
}
