package behaviour

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Fault: A name is in use as another kind of lock. The error, ErrMismatch, names the kind: the caller should use it
// as that, not delete it.
//
// Fault: The lock, its queue or the fence counter has the wrong type. ErrMismatch says what it is, and no lock is half taken.
func TestAnotherKindOfLockIsNamed(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c, rdb := b.Client(t, nil), b.Redis(t)
		leases := map[string]*holdfast.Lease{
			"mutex": backend.Acquire(t, c.Mutex("mutex")), "semaphore": backend.Acquire(t, c.Semaphore("semaphore", 2).Permits(1)),
			"reader": backend.Acquire(t, c.RWMutex("reader").Reader()), "writer": backend.Acquire(t, c.RWMutex("writer").Writer()),
			"owner": backend.Acquire(t, c.OwnerMutex("owner", "o")), "redisson": backend.Acquire(t, c.RedissonMutex("holdfast:{redisson}")),
		}
		party := expect.Of(barrier.New(c, "barrier", 2).Join(t.Context())).OK(t)
		leases["barrier"] = party.Lease()
		expect.OK(t, latch.New(c, "latch", 2).CountDown(t.Context()))
		expect.OK(t, rdb.Set(t.Context(), "holdfast:{string}", "x", 0).Err())
		expect.OK(t, rdb.Set(t.Context(), "holdfast:{queue}:q", "x", 0).Err())
		expect.OK(t, rdb.HSet(t.Context(), "holdfast:{hash}", "a", "b", "kind", "none of ours").Err())
		expect.OK(t, rdb.RPush(t.Context(), "holdfast:{list}", "x").Err())

		locks := func(all ...*holdfast.Lock) (ways []func(context.Context) error) {
			for _, l := range all {
				ways = append(ways, func(ctx context.Context) error { _, err := l.TryAcquire(ctx); return err },
					func(ctx context.Context) error { _, err := l.Acquire(ctx); return err })
			}
			return ways
		}
		// The ways to use a name as each kind of lock, and to look at it.
		uses := func(name string, look bool) map[string][]func(context.Context) error {
			s, rw, theLatch, theBarrier := c.Semaphore(name, 2), c.RWMutex(name), latch.New(c, name, 2), barrier.New(c, name, 2)
			all := map[string][]func(context.Context) error{
				"mutex":           locks(c.Mutex(name), c.Multi([]string{name, "free"})),
				"semaphore":       locks(s.Permits(1)),
				"read-write lock": locks(rw.Reader(), rw.Writer()),
				"owner":           locks(c.OwnerMutex(name, "o")),
				"redisson":        locks(c.RedissonMutex("holdfast:{" + name + "}")),
				"latch": {theLatch.Wait, theLatch.CountDown, theLatch.Reset,
					func(ctx context.Context) error { _, err := theLatch.Register(ctx); return err }},
				"barrier": {func(ctx context.Context) error { _, err := theBarrier.Join(ctx); return err },
					func(ctx context.Context) error { _, err := theBarrier.TryJoin(ctx); return err }},
			}
			if look {
				for l, kind := range map[backend.Locked]string{
					c.Mutex(name): "mutex", election.New(c.Mutex(name)): "mutex", s: "semaphore", rw: "read-write lock",
				} {
					all[kind] = append(all[kind], func(ctx context.Context) error { _, err := l.Status(ctx); return err })
				}
			}
			return all
		}
		const oneHolder, stranger = "a lock with one holder at a time", "not a Holdfast lock"
		for name, is := range map[string]struct{ kind, says string }{
			"mutex": {"mutex", oneHolder}, "semaphore": {"semaphore", "holds a semaphore"}, "owner": {"owner", "holds an owner's lock"},
			"reader": {"read-write lock", "holds a read-write lock"}, "writer": {"read-write lock", "holds a read-write lock"},
			"redisson": {"redisson", "Redisson's RLock"}, "latch": {"latch", "holds a latch"}, "barrier": {"barrier", "holds a barrier"},
			"hash": {"", stranger}, "list": {"", stranger}, "string": {"mutex", stranger},
		} {
			advice := "use the name for that kind"
			if is.says == stranger {
				advice = "choose another name"
			}
			for kind, ways := range uses(name, is.says != stranger) {
				// Any hash may be a lock of Redisson's.
				if kind == is.kind || kind == "redisson" && name != "mutex" && name != "list" && name != "string" {
					continue
				}
				for i, use := range ways {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for one that waits
					err := use(ctx)
					cancel()
					if !errors.Is(err, holdfast.ErrMismatch) {
						t.Errorf("%s used as a %s, way %d: %v", name, kind, i, err)
					} else if text := err.Error(); strings.Contains(text, "delete") || !strings.Contains(text, is.says) || !strings.Contains(text, advice) {
						t.Errorf("%s used as a %s, way %d: want %q and %q, and no advice to delete: %v", name, kind, i, is.says, advice, err)
					}
				}
			}
		}
		_, looked := c.Mutex("queue").Status(t.Context())
		rdb.Set(t.Context(), "holdfast:{queue}", "theirs", 0) // otherwise its queue does not matter
		_, acquired := c.Mutex("queue").Acquire(t.Context())
		for what, err := range map[string]error{"Status": looked, "Acquire": acquired} {
			says := what == "Acquire" || strings.Contains(fmt.Sprint(err), "its queue")
			if !errors.Is(err, holdfast.ErrMismatch) || errors.Is(err, holdfast.ErrHeld) || !says {
				t.Errorf("%s, with a queue that is none: %v", what, err)
			}
		}
		expect.Equal(t, "a lock whose queue is none", rdb.Get(t.Context(), "holdfast:{queue}").Val(), "theirs")
		for kind, lease := range leases {
			expect.Err(t, "the "+kind, lease.Err(), nil)
			backend.Release(t, lease)
		}
		if fields, items := rdb.HLen(t.Context(), "holdfast:{hash}").Val(), rdb.LLen(t.Context(), "holdfast:{list}").Val(); fields != 2 || items != 1 {
			t.Errorf("the strangers' keys became a hash of %d and a list of %d", fields, items)
		}
		backend.Release(t, backend.Acquire(t, c.Mutex("free")))
	})
}

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
		expect.Same(t, "locks half taken", rdb.Keys(t.Context(), "*{*").Val(), nil)
		rdb.Del(t.Context(), counter)
		time.Sleep(time.Millisecond) // in virtual time it would still be the same moment
		next := backend.Acquire(t, c.Mutex("held"))
		expect.Rises(t, held.Fence(), next.Fence())
		backend.Release(t, next)

		backend.SetCounter(t, rdb, counter, time.Now().Add(23*time.Hour).UnixMicro()) // as after the clock went back
		backend.Release(t, backend.Acquire(t, c.Mutex("a")))
	})
}
