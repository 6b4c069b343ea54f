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
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// told is a way in which a holder learns that its lease is lost.
var told = map[string]func(ctx context.Context, l *holdfast.Lease) error{
	"Extend":  func(ctx context.Context, l *holdfast.Lease) error { return l.Extend(ctx, time.Minute) },
	"Release": func(ctx context.Context, l *holdfast.Lease) error { return l.Release(ctx) },
	"a renewal": func(_ context.Context, l *holdfast.Lease) error {
		<-l.Done()
		return l.Err()
	},
}

// renewed is the TTL of leases that are to be renewed soon, and not to expire before, on a slow machine.
const renewed = 9 * time.Second

// wantLoss requires that err is a loss for that reason, brought about by that party.
func wantLoss(t testing.TB, what string, err error, reason holdfast.LossReason, by string) {
	t.Helper()
	var lost *holdfast.LostError
	if !errors.As(err, &lost) || lost.Reason != reason || lost.By != by {
		t.Errorf("%s: %v, %+v; want %q by %q", what, err, lost, reason, by)
	}
	if by != "" && !strings.Contains(err.Error(), "by "+by) {
		t.Errorf("%s: %q does not say who did it", what, err)
	}
}

// A holder is told whether its lock was deleted or somebody else has it.
func TestALockThatWasDeletedIsToldFromOneThatWasTaken(t *testing.T) {
	backend.EachLong(t, func(t *testing.T, b *backend.Backend) {
		c, other := b.Client(t, nil), b.Client(t, nil)
		rdb, ctx := b.Redis(t), context.Background()
		for kind, lock := range breakable {
			s := expect.Of(lock(c, holdfast.TTL(time.Minute)).Status(ctx)).OK(t)
			key := s.Key
			for way, tell := range told {
				terms := holdfast.Options(holdfast.TTL(time.Minute), holdfast.NoRenew()) // no renewal comes between a deletion and what follows
				if way == "a renewal" {
					if terms = holdfast.TTL(renewed); kind != "mutex" && kind != "semaphore" {
						continue // that would take long
					}
				}
				lease := backend.Acquire(t, lock(c, terms))
				rdb.Del(ctx, key)
				wantLoss(t, kind+" that was deleted, told by "+way, tell(ctx, lease), holdfast.LossDeleted, "")
				rdb.Del(ctx, key)

				lease = backend.Acquire(t, lock(c, terms))
				rdb.Del(ctx, key)
				next := backend.Acquire(t, lock(other, holdfast.TTL(time.Minute)))
				wantLoss(t, kind+" that was taken, told by "+way, tell(ctx, lease), holdfast.LossTaken, "")
				backend.Release(t, next)
			}
		}
	})
}

// A party of a barrier, a run of a job and a lease that changes sides are told of a deletion, too.
func TestADeletionIsToldInEveryWay(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c, rdb, ctx := b.Client(t, nil), b.Redis(t), context.Background()
		party, err := barrier.New(c, "bar", 2).Join(ctx)
		expect.OK(t, err)
		rdb.Del(ctx, "holdfast:{bar}")
		_, err = party.Await(ctx)
		wantLoss(t, "Await", err, holdfast.LossDeleted, "")

		rw := c.RWMutex("rw")
		writer := backend.Acquire(t, rw.Writer())
		rdb.Del(ctx, "holdfast:{rw}")
		_, err = rw.Downgrade(ctx, writer)
		wantLoss(t, "Downgrade", err, holdfast.LossDeleted, "")
		_ = writer.Release(ctx)
		reader := backend.Acquire(t, rw.Reader())
		rdb.Del(ctx, "holdfast:{rw}")
		_, err = rw.TryUpgrade(ctx, reader)
		wantLoss(t, "TryUpgrade", err, holdfast.LossDeleted, "")

		_, err = once.New(c, "job", once.Every(time.Hour)).Do(ctx, func(ctx context.Context, _ *holdfast.Lease) (string, error) {
			return "", rdb.Del(ctx, "holdfast:{job}").Err()
		})
		wantLoss(t, "the completion of a job", err, holdfast.LossDeleted, "")

		_, err = once.New(c, "job", once.Every(time.Hour)).Do(ctx, func(ctx context.Context, _ *holdfast.Lease) (string, error) {
			return "", rdb.Set(ctx, "holdfast:{job}", "another's", time.Minute).Err()
		})
		wantLoss(t, "the completion of a job whose lock is another's", err, holdfast.LossTaken, "")
	})
}

// The holder whose lease ReleaseOwner has ended learns that, even if the lock has another holder by then, or none, and even
// if other leases of the owner end first.
func TestReleaseOwnerSupersedesALease(t *testing.T) {
	backend.EachLong(t, func(t *testing.T, b *backend.Backend) {
		c, other := b.Client(t, nil), b.Client(t, nil)
		ctx := context.Background()
		long := c.OwnerMutex("a", "job-7", holdfast.TTL(time.Minute))
		short := c.OwnerMutex("a", "job-7", holdfast.TTL(renewed))
		release := func() {
			t.Helper()
			expect.OK(t, expect.ErrOf(other.ReleaseOwner(ctx, "a", "job-7")))
		}
		for way, tell := range told {
			lease := backend.Acquire(t, short)
			release()
			wantLoss(t, "the only lease, told by "+way, tell(ctx, lease), holdfast.LossSuperseded, "job-7")

			kept := backend.Acquire(t, long)
			lease = backend.Acquire(t, short)
			second := backend.Acquire(t, short)
			release()
			release()
			wantLoss(t, "one of three, told by "+way, tell(ctx, lease), holdfast.LossSuperseded, "job-7")
			backend.Release(t, kept)
			wantLoss(t, "the last to be told by "+way, tell(ctx, second), holdfast.LossSuperseded, "job-7")

			lease = backend.Acquire(t, short)
			next := backend.Start(t, other.OwnerMutex("a", "job-8"))
			backend.Waiters(t, long, 1)
			release()
			after := backend.Receive(t, next)
			wantLoss(t, "a lease whose lock another owner has, told by "+way, tell(ctx, lease), holdfast.LossSuperseded, "job-7")
			backend.Release(t, after)
		}
		b.Cleaned(t)
	})
}

// A party of a latch learns whether the latch was reset or deleted.
func TestResetSupersedesTheParties(t *testing.T) {
	backend.EachLong(t, func(t *testing.T, b *backend.Backend) {
		c, ctx := b.Client(t, nil), context.Background()
		theLatch := latch.New(c, "l", 2, holdfast.TTL(renewed))
		told := map[string]func(p *latch.Party) error{
			"CountDown": func(p *latch.Party) error { return p.CountDown(ctx) },
			"Leave":     func(p *latch.Party) error { return p.Leave(ctx) },
			"a renewal": func(p *latch.Party) error { <-p.Lease().Done(); return p.Lease().Err() },
		}
		for how, end := range map[string]func() error{
			"reset":   func() error { return theLatch.Reset(ctx) },
			"deleted": func() error { return theLatch.Delete(ctx) },
			"deleted by an operator": func() error {
				return b.Redis(t).Del(ctx, "holdfast:{l}").Err()
			},
		} {
			reason := holdfast.LossSuperseded
			if strings.HasPrefix(how, "deleted") {
				reason = holdfast.LossDeleted
			}
			for way, tell := range told {
				party := expect.Of(theLatch.Register(ctx)).OK(t)
				expect.OK(t, end())
				wantLoss(t, "a party of a latch that was "+how+", told by "+way, tell(party), reason, "")
			}
			// The lease of a party that has left was not ended by the reset.
			party := expect.Of(theLatch.Register(ctx)).OK(t)
			expect.Err(t, "CountDown after the latch was "+how, party.CountDown(ctx), nil)
			expect.OK(t, theLatch.Reset(ctx))
		}
	})
}

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
