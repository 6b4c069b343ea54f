package behaviour

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Fault: Somebody sets the fence counter so far ahead that a resource that saw such a fence would refuse all later
// ones, or to something other than a counter. Nobody is granted it; a holder keeps its lock, and can release it; fences rise once the counter is deleted.
func TestACounterThatSomebodyHasSet(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		const counter = "holdfast:fences"
		c, rdb := b.Client(t, nil), b.Redis(t)
		held := backend.Acquire(t, c.Mutex("held"))
		for what, forge := range map[string]func() error{
			"text":   func() error { return rdb.Set(t.Context(), counter, "1600000000000000", 0).Err() },
			"a hash": func() error { return rdb.HSet(t.Context(), counter, "a", "b").Err() },
			"more than 64 bits": func() error { // 1000 times as much is just above 1<<64
				return rdb.Do(t.Context(), "XADD", counter, "18446744073709552-0", "g", "").Err()
			},
			"a forged counter": func() error {
				backend.SetCounter(t, rdb, counter, 8_999_999_999_999_000)
				return nil
			},
			"more than a day ahead": func() error {
				backend.SetCounter(t, rdb, counter, time.Now().Add(24*time.Hour+time.Minute).UnixMicro())
				return nil
			},
		} {
			rdb.Del(t.Context(), counter)
			expect.OK(t, forge())
			for kind, l := range map[string]*holdfast.Lock{
				"mutex":            c.Mutex("a"),
				"shared key":       c.MutexKey("{a}"),
				"writer":           c.RWMutex("rw").Writer(),
				"reader":           c.RWMutex("rw").Reader(),
				"permit":           c.Semaphore("s", 3).Permits(1),
				"several":          c.Multi([]string{"a", "b"}),
				"an owner's mutex": c.Mutex("own", holdfast.Reentrant()),
			} {
				_, err := l.TryAcquire(t.Context())
				if !errors.Is(err, holdfast.ErrMismatch) || !strings.Contains(err.Error(), counter) || !strings.Contains(err.Error(), "delete it") ||
					strings.Contains(err.Error(), "another name") {
					t.Errorf("%s: %s: %v", what, kind, err)
				}
			}
		}
		expect.Err(t, "the holder", held.Extend(t.Context(), time.Minute), nil)
		backend.Release(t, held)
		if keys := rdb.Keys(t.Context(), "*{*").Val(); len(keys) > 0 {
			t.Errorf("locks are half taken: %q", keys)
		}
		rdb.Del(t.Context(), counter)
		time.Sleep(time.Millisecond) // in virtual time it would still be the same moment
		next := backend.Acquire(t, c.Mutex("held"))
		expect.Rises(t, held.Fence(), next.Fence())
		backend.Release(t, next)

		backend.SetCounter(t, rdb, counter, time.Now().Add(23*time.Hour).UnixMicro()) // as after the clock went back
		backend.Release(t, backend.Acquire(t, c.Mutex("a")))
	})
}
