package behaviour

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// census is a driver that counts the holders that its server lists.
type census struct {
	drivertest.Driver
	told atomic.Int64
}

func (d *census) Run(ctx context.Context, call driver.Call) (string, error) {
	reply, err := d.Driver.Run(ctx, call)
	if call.Script.Name == "status" {
		d.told.Add(int64(strings.Count(reply, "\n")))
	}
	return reply, err
}

// To find one holder, the client asks the server for a few, however many there are.
func TestOneOfManyHoldersIsFoundAmongAFew(t *testing.T) {
	t.Parallel()
	if testing.Short() { // the caller does not wait for a server that takes longer than a second
		t.Skip("SKIPPED: part of make nightly")
	}
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		const n, few = 300, 100 // about ten are asked for at first
		d := &census{Driver: b.Hearing(t, "no channel")}
		c := backend.New(t, &holdfast.Config{MaxLocalHandovers: -1}, d) // readers of one process are several holders
		soon := holdfast.Wait(time.Millisecond)
		for kind, locks := range map[string][2]*holdfast.Lock{ // one that is held, and one that is wanted
			// With these TTLs nobody has to renew them.
			"semaphore":       {c.Semaphore("s", n, holdfast.TTL(time.Hour)).Permits(1), c.Semaphore("s", n).Permits(1, soon)},
			"read-write lock": {c.RWMutex("rw", holdfast.TTL(time.Hour)).Reader(), c.RWMutex("rw").Writer(soon)},
		} {
			l := locks[0]
			for range n {
				lease := expect.Of(l.TryAcquire(t.Context())).OK(t)
				t.Cleanup(func() { backend.Release(t, lease) })
			}
			d.told.Store(0)
			_, err := locks[1].Acquire(t.Context())
			var held *holdfast.HeldError
			if told := d.told.Swap(0); !errors.As(err, &held) || held.Holder.Identity == "" || told < 1 || told > few {
				t.Errorf("%s: the caller whose time is up has %v; the server told of %d of %d holders, want 1 to %d", kind, err, told, n, few)
			}
			if holders, err := backend.HoldersOf(t.Context(), l); err != nil || len(holders) != n {
				t.Errorf("%s: Holders returned %d, %v, want %d", kind, len(holders), err, n)
			}
			d.told.Store(0)
		}
	})
}
