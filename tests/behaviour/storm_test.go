package behaviour

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// Processes that want a lock at the same time never hold it in ways that exclude each other, and fences tell which hold was later.
func TestStorms(t *testing.T) {
	const everyone, permits = 1000, 5
	for kind, c := range map[string]struct {
		lock  func(c *holdfast.Client, process int, dice *rand.Rand) (l *holdfast.Lock, share int) // 0: all of it
		judge func(events []history.Event) []history.Violation
	}{
		"readers and writers": {
			func(c *holdfast.Client, _ int, dice *rand.Rand) (*holdfast.Lock, int) {
				rw := c.RWMutex("a")
				if dice.IntN(4) == 0 {
					return rw.Writer(), 0
				}
				return rw.Reader(), 1
			},
			func(events []history.Event) []history.Violation {
				readers := func(a, b history.Event) bool { return a.Share != 0 && b.Share != 0 }
				return append(history.Crowding(events, everyone), history.SharedFences(events, true, readers)...)
			},
		},
		"permits": {
			func(c *holdfast.Client, _ int, dice *rand.Rand) (*holdfast.Lock, int) {
				n := 1 + dice.IntN(permits)
				return c.Semaphore("a", permits).Permits(n), n
			},
			func(events []history.Event) []history.Violation {
				return append(history.Crowding(events, permits), history.Twins(events)...)
			},
		},
		"owners": {
			func(c *holdfast.Client, process int, _ *rand.Rand) (*holdfast.Lock, int) {
				owner := process % 2
				return c.OwnerMutex("a", []string{"me", "you"}[owner]), 1 + owner
			},
			func(events []history.Event) []history.Violation {
				same := func(a, b history.Event) bool { return a.Share == b.Share }
				return append(history.Strangers(events), history.SharedFences(events, true, same)...)
			},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			backend.Each(t, func(t *testing.T, b *backend.Backend) {
				r := history.NewRecorder(nil)
				var grants atomic.Int64
				var wg sync.WaitGroup
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for i := range 4 {
					client := b.Client(t, nil)
					for j := range 4 {
						wg.Go(func() {
							dice := random(10*i + j)
							for ctx.Err() == nil {
								l, share := c.lock(client, i, dice)
								attempt := r.Ask(10*i+j, "a")
								attempt.Share(share)
								lease, err := l.Acquire(ctx)
								if err != nil {
									attempt.GaveUp()
									continue
								}
								attempt.Granted(lease.Fence(), lease.Deadline())
								if grants.Add(1) == 300 {
									cancel()
								}
								time.Sleep(time.Microsecond + upTo(2*time.Millisecond, dice))
								attempt.Released(lease.Deadline())
								_ = lease.Release(ctx)
							}
						})
					}
				}
				wg.Wait()
				for _, v := range c.judge(expect.Of(r.Events()).OK(t)) {
					t.Errorf("%v", v)
				}
				expect.AtLeast(t, "grants", grants.Load(), 300)
				b.Cleaned(t)
			})
		})
	}
}
