// Package migration tests the ways over that docs/migration describes: instances of two releases of a program run side by side, of
// which the earlier has another library's lock, and there are never two holders. It is in the module of tests/bench, which has those
// libraries.
package migration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// way is a way over from another lock: releases of which two that follow each other may run side by side.
type way struct {
	page     string
	what     string
	servers  int
	releases []release
	wrong    []release // share no lock with the first release; the last one does not either
}

var ways = []way{
	{"from-redsync.md", "one server", 1, []release{oldRedsync, ours(byKey("orders")), ours(byName, byKey("orders")), ours(byName)},
		[]release{ours(byKey("redsync:orders"))}},
	{"from-redsync.md", "several servers", 3, []release{oldRedsync, within(theQuorum, oldRedsync), theQuorum}, nil},
	{"from-redislock.md", "", 1, []release{oldRedislock, ours(byKey("orders")), ours(byName, byKey("orders")), ours(byName)},
		[]release{ours(byKey("redislock:orders"))}},
	{"from-rueidislock.md", "one key", 1, []release{oldRueidislock(1), ours(byKey("rueidislock:0:orders")), ours(byName, byKey("rueidislock:0:orders")), ours(byName)},
		[]release{ours(byKey("orders")), ours(byKey("rueidislock:orders"))}},
	{"from-rueidislock.md", "several keys", 1, []release{oldRueidislock(2), within(ours(byName), oldRueidislock(2)), ours(byName)}, nil},
	{"from-setnx.md", "SET", 1, []release{bySET, ours(byKey("orders")), ours(byName, byKey("orders")), ours(byName)}, nil},
	{"from-setnx.md", "SETNX and EXPIRE", 1, []release{bySETNX, ours(byKey("orders")), ours(byName, byKey("orders")), ours(byName)}, nil},
	{"from-setnx.md", "other forms", 1, []release{bySET, within(ours(byName), bySET), ours(byName)}, nil},
	{"from-redisson.md", "step 3", 1, []release{ours(redisson), ours(byName, redisson), ours(byName)}, []release{ours(byKey("redisson:orders"))}},
}

func (w way) String() string { return w.page + " " + w.what }

// start starts the servers, and returns their addresses.
func (w way) start(t *testing.T) (addrs []string) {
	t.Helper()
	for range w.servers {
		addrs = append(addrs, server.Start(t, server.One(t)).Addr())
	}
	if w.servers > 1 {
		expect.OK(t, inspect.NewQuorum(quorumOf(t, addrs)).Admit(t.Context()))
	}
	return addrs
}

// Instances of two releases that follow each other are never holders at once, each release gets its turns, and fences rise.
func TestTwoReleasesSideBySide(t *testing.T) {
	t.Parallel()
	for _, w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			addrs := w.start(t)
			for i, later := range w.releases[1:] {
				earlier := w.releases[i]
				machine.Undisturbed(t, func() error {
					r, err := sideBySide(t, addrs, earlier, later, 50)
					if n := r.overlaps.Load(); n > 0 {
						err = errors.Join(err, fmt.Errorf("there were two holders %d times", n))
					}
					if n := r.late.Load(); n > 0 {
						err = errors.Join(err, fmt.Errorf("%d fences did not rise", n))
					}
					if err != nil {
						return fmt.Errorf("%s beside %s: %w", earlier.what, later.what, err)
					}
					t.Logf("%s had %d turns beside %s, which had %d", earlier.what, r.turns[0].Load(), later.what, r.turns[1].Load())
					return nil
				})
			}
		})
	}
}

// The test above can fail: it finds overlaps of a release that has a wrong key, and of the first and the last release, of which the
// pages say that they must not meet.
func TestReleasesWithoutACommonLockOverlap(t *testing.T) {
	t.Parallel()
	for _, w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			addrs := w.start(t)
			for _, wrong := range append(w.wrong, w.releases[len(w.releases)-1]) {
				r, err := sideBySide(t, addrs, w.releases[0], wrong, 1<<40)
				if err != nil || r.overlaps.Load() == 0 {
					t.Errorf("%s beside %s: nobody noticed: %v", w.releases[0].what, wrong.what, err)
				}
			}
		})
	}
}

// resource is what a lock guards.
type resource struct {
	turns [2]atomic.Int64 // of each release

	inside   atomic.Int64
	mark     atomic.Uint64
	overlaps atomic.Int64
	late     atomic.Int64
}

func (r *resource) use(fence uint64) {
	if r.inside.Add(1) > 1 {
		r.overlaps.Add(1)
	}
	if fence != 0 && r.mark.Swap(fence) >= fence {
		r.late.Add(1)
	}
	time.Sleep(time.Millisecond)
	r.inside.Add(-1)
}

// sideBySide runs two instances of each of two releases, with two goroutines each, until each release has had that many turns, or two
// were holders at once.
func sideBySide(t *testing.T, addrs []string, earlier, later release, turns int64) (*resource, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // for a test that hangs
	defer cancel()
	r := &resource{}
	enough := func() bool {
		return r.overlaps.Load() > 0 || r.turns[0].Load() >= turns && r.turns[1].Load() >= turns
	}
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	for side, one := range []release{earlier, later} {
		for range 2 {
			run := one.open(t, addrs)
			for range 2 {
				wg.Go(func() {
					for !enough() {
						err := run(ctx, func(ctx context.Context, fence uint64) error {
							r.use(fence)
							r.turns[side].Add(1)
							return nil
						})
						if err != nil {
							mu.Lock()
							failed = errors.Join(failed, err)
							mu.Unlock()
							cancel()
							return
						}
					}
				})
			}
		}
	}
	wg.Wait()
	return r, failed
}

// An old instance whose lock has expired does not release the next holder's, which is ours.
func TestALateInstanceReleasesNothing(t *testing.T) {
	t.Parallel()
	for _, old := range []release{oldRedsync, oldRedislock, bySET, oldRueidislock(1)} {
		t.Run(old.what, func(t *testing.T) {
			t.Parallel()
			addrs := way{servers: 1}.start(t)
			key := name
			if strings.HasPrefix(old.what, "rueidislock") {
				key = "rueidislock:0:" + name
			}
			rdb, l := dial(t, addrs[0]), client(t, addrs[0], nil).MutexKey(key)
			var lease *holdfast.Lease
			_ = old.open(t, addrs)(t.Context(), func(context.Context, uint64) (err error) {
				expect.Err(t, "TryAcquire of what an old instance holds", expect.ErrOf(l.TryAcquire(t.Context())), holdfast.ErrHeld)
				if n, err := rdb.Del(t.Context(), key).Result(); n != 1 || err != nil { // as if it had expired
					t.Errorf("%d keys are deleted, %v", n, err)
				}
				lease, err = l.TryAcquire(t.Context())
				return err
			})
			if lease == nil {
				t.Fatal("we do not have the lock")
			}
			expect.Err(t, "our lock, after a late instance has released its own", lease.Extend(t.Context(), ttl), nil)
			expect.Err(t, "Release", lease.Release(t.Context()), nil)
		})
	}
}

// from-setnx.md: a lock whose EXPIRE was never sent has no expiry, which Status tells.
func TestALockWithoutAnExpiryIsTold(t *testing.T) {
	t.Parallel()
	addrs := way{servers: 1}.start(t)
	expect.OK(t, dial(t, addrs[0]).SetNX(t.Context(), name, "token", 0).Err())
	_, err := client(t, addrs[0], nil).MutexKey(name).TryAcquire(t.Context())
	if held := (*holdfast.HeldError)(nil); !errors.As(err, &held) || !held.Holder.Foreign || held.Holder.TTL >= 0 {
		t.Errorf("TryAcquire: %v", err)
	}
}

// from-redislock.md: a Token that is a prefix of our values takes our lock; a random one does not.
func TestATokenTakesWhatBeginsWithIt(t *testing.T) {
	t.Parallel()
	addrs := way{servers: 1}.start(t)
	locker := redislock.New(dial(t, addrs[0]))
	for _, token := range []string{"h", "hf", "hf2", "hf2:"} {
		lease := expect.Of(client(t, addrs[0], nil).MutexKey(name).Acquire(t.Context())).OK(t)
		expect.Err(t, "Obtain of what we hold", expect.ErrOf(locker.Obtain(t.Context(), name, ttl, nil)), redislock.ErrNotObtained)
		lock, err := locker.Obtain(t.Context(), name, ttl, &redislock.Options{Token: token})
		if err != nil {
			t.Errorf("with the token %q: %v; the page says that it takes our lock", token, err)
			continue
		}
		expect.Err(t, "Extend of the lock that was taken", lease.Extend(t.Context(), ttl), holdfast.ErrLost)
		expect.Err(t, "Release", lock.Release(t.Context()), nil)
	}
}

// from-rueidislock.md: ForceWithContext takes our lock, and we learn that when we renew it.
func TestForceTakesOurLock(t *testing.T) {
	t.Parallel()
	addrs := way{servers: 1}.start(t)
	lease := expect.Of(client(t, addrs[0], nil).MutexKey("rueidislock:0:" + name).Acquire(t.Context())).OK(t)
	_, cancel, err := rueidisLocker(t, addrs[0], 1).ForceWithContext(t.Context(), name)
	expect.OK(t, err)
	defer cancel()
	expect.Err(t, "Extend of the lock that was taken", lease.Extend(t.Context(), ttl), holdfast.ErrLost)
}
