package behaviour

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// sharedKey makes our lock for a key that other programs use.
type sharedKey func(c *holdfast.Client, key string, opts ...holdfast.MutexOption) *holdfast.Lock

// sharings are the ways to share a lock with other programs, with our lock and theirs.
var sharings = map[string]struct {
	ours   sharedKey
	theirs stranger
}{
	"canonical": {(*holdfast.Client).MutexKey, canonical},
	"redisson":  {(*holdfast.Client).RedissonMutex, rlock},
}

// stranger is another program's lock: scripts that acquire and release it, and ask whether it is held. They get the lock's key, a token,
// the TTL (ms), and Redisson's channel for the lock.
type stranger struct{ acquire, release, held *redis.Script }

// canonical is SET key token NX PX ttl, and a script that compares and deletes, as
// https://redis.io/docs/latest/commands/set/ recommends.
var canonical = stranger{
	redis.NewScript(`return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0`),
	redis.NewScript(`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`),
	redis.NewScript(`return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0`),
}

// rlock does what Redisson's RLock does when one thread locks and unlocks. The real Redisson is in tests/interop.
var rlock = stranger{
	redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`),
	redis.NewScript(`
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) <= 0 then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[3], '0')
end
return 1`),
	redis.NewScript(`return redis.call('HLEN', KEYS[1]) == 1 and redis.call('HGET', KEYS[1], ARGV[1]) == '1' and 1 or 0`),
}

// foreign is a stranger's lock on a server.
type foreign struct {
	stranger
	rdb *redis.Client
	key string
}

func (f foreign) run(t testing.TB, s *redis.Script, token string, ttl time.Duration) bool {
	t.Helper()
	tag := f.key
	if !strings.Contains(tag, "{") {
		tag = "{" + tag + "}"
	}
	id, channel := "b7a1c8e0-3f5a-4a44-8b90-1d3f6f0b7c11:"+token, "redisson_lock__channel:"+tag
	n, err := s.Run(t.Context(), f.rdb, []string{f.key}, id, ttl.Milliseconds(), channel).Int()
	if err != nil && t.Context().Err() == nil {
		t.Errorf("another program: %v", err)
	}
	return n == 1
}

func (f foreign) try(t testing.TB, token string, ttl time.Duration) bool {
	t.Helper()
	return f.run(t, f.acquire, token, ttl)
}

func (f foreign) unlock(t testing.TB, token string) bool {
	t.Helper()
	return f.run(t, f.release, token, 0)
}

func (f foreign) holds(t testing.TB, token string) bool {
	t.Helper()
	return f.run(t, f.held, token, 0)
}

// eachSharing runs f for all sharings, with a lock of ours and theirs for a key.
func eachSharing(t *testing.T, f func(t testing.TB, b *backend.Backend, ours sharedKey, theirs func(key string) foreign)) {
	t.Parallel()
	for name, s := range sharings {
		eachOf(t, name, func(t *testing.T, b *backend.Backend) {
			f(t, b, s.ours, func(key string) foreign { return foreign{s.theirs, b.Redis(t), key} })
		})
	}
}

func TestSharedKeyKeepsBothSidesOut(t *testing.T) {
	eachSharing(t, func(t testing.TB, b *backend.Backend, shared sharedKey, strange func(key string) foreign) {
		for _, key := range []string{"jobs:1", "{order}:1"} {
			l := shared(b.Client(t, nil), key)
			theirs := strange(key)

			lease := backend.Acquire(t, l)
			expect.Equal(t, "they get our lock", theirs.try(t, "x", time.Minute), false)
			if theirs.unlock(t, "x") {
				t.Fatal("they released our lock")
			}
			backend.Release(t, lease)

			expect.Equal(t, "they get what we have released", theirs.try(t, "x", time.Hour), true)
			_, err := l.TryAcquire(t.Context())
			var he *holdfast.HeldError
			if !errors.As(err, &he) || !he.Holder.Foreign || he.Holder.TTL < 50*time.Minute {
				t.Errorf("TryAcquire of their lock: %v", err)
			}
			leases := queue(t, l, 1)
			expect.Equal(t, "they still hold it while we wait", theirs.holds(t, "x"), true)
			if !theirs.unlock(t, "x") {
				t.Error("their release is refused")
			}
			backend.Release(t, backend.Receive(t, leases))
		}
		wantNoKeys(t, b)
	})
}

// Fault: A foreign program that shares a key, or ours, crashes with the lock. The other has it after the TTL.
func TestSharedKeySurvivesCrashes(t *testing.T) {
	eachSharing(t, func(t testing.TB, b *backend.Backend, shared sharedKey, strange func(key string) foreign) {
		const ttl = 5 * time.Second
		theirs := strange("k")
		l := shared(b.Client(t, nil), "k")
		// Theirs is never released.
		start := time.Now()
		expect.Equal(t, "they get a free key", theirs.try(t, "x", ttl), true)
		lease := backend.Acquire(t, l)
		expect.AtLeast(t, "our wait for them", time.Since(start), ttl-50*time.Millisecond)
		backend.Release(t, lease)
		// Ours is neither renewed nor released.
		start = time.Now()
		backend.Acquire(t, shared(b.Client(t, nil), "k", holdfast.TTL(ttl), holdfast.NoRenew()))
		for !theirs.try(t, "y", time.Minute) {
			if time.Since(start) > ttl+30*time.Second {
				t.Fatal("our crash keeps them out")
			}
			time.Sleep(5 * time.Millisecond)
		}
		// Our lease ends, and gives the key back, earlier than the key expires, by the drift that clocks may
		// have: 1% and 2 ms.
		expect.AtLeast(t, "their wait for us", time.Since(start), ttl-ttl/50)
	})
}

// Fault: Ours hand over a shared key to each other without end, while a foreign program polls it. The lock is free
// for a moment after some hand-overs, and the foreign program gets it.
func TestHandoversLeaveGapsOnASharedKey(t *testing.T) {
	eachSharing(t, func(t testing.TB, b *backend.Backend, shared sharedKey, strange func(key string) foreign) {
		var stop atomic.Bool
		var wg sync.WaitGroup
		for range 3 {
			l := shared(b.Client(t, nil), "k")
			wg.Go(func() {
				for !stop.Load() {
					lease, err := l.Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Millisecond)
					noError(t, lease.Release(t.Context()))
				}
			})
		}
		theirs := strange("k")
		for n := range 3 {
			token := strconv.Itoa(n)
			backend.Eventually(t, "a poller gets its turn", func() bool { return theirs.try(t, token, time.Minute) })
			theirs.unlock(t, token)
		}
		stop.Store(true)
		wg.Wait()
	})
}

// There is a gap only if somebody waits: otherwise a lock that was released can be had at once.
func TestNoGapIfNobodyWaits(t *testing.T) {
	eachSharing(t, func(t testing.TB, b *backend.Backend, shared sharedKey, _ func(key string) foreign) {
		l := shared(b.Client(t, nil), "k")
		lease := backend.Acquire(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		expect.Err(t, "a waiter that gives up", expect.ErrOf(l.Acquire(ctx)), context.DeadlineExceeded)
		backend.Waiters(t, l, 0)
		backend.Release(t, lease)
		backend.Release(t, expect.Of(l.TryAcquire(t.Context())).OK(t))
	})
}

// Fault: A queue has the wrong type. Its lock's holder can still release.
func TestReleaseDespiteABrokenQueue(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		rdb := b.Redis(t)
		for what, spoil := range map[string]func(){
			"queue": func() {
				rdb.Del(t.Context(), "holdfast:{m}:q")
				rdb.Set(t.Context(), "holdfast:{m}:q", "x", 0)
			},
			"fence": func() { rdb.Set(t.Context(), "holdfast:fences", "x", 0) },
		} {
			rdb.FlushAll(t.Context())
			lease := backend.Acquire(t, b.Client(t, nil).Mutex("m"))
			waiter := b.Client(t, nil).Mutex("m")
			leases := make(chan *holdfast.Lease, 1)
			go func() {
				l, _ := waiter.Acquire(t.Context())
				leases <- l
			}()
			backend.Waiters(t, waiter, 1)
			spoil()
			backend.Release(t, lease)
			expect.Equal(t, what+": keys of the lock", rdb.Exists(t.Context(), "holdfast:{m}").Val(), 0)
			select {
			case l := <-leases:
				if l != nil {
					t.Errorf("%s: somebody believes to have been handed the lock", what)
				}
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}

// A release that is heard wakes a waiter at once. By itself the waiter would look only after most of a second.
func TestRedissonsReleaseWakesAWaiter(t *testing.T) {
	virtually(t, func(t *testing.T, b *backend.Backend) {
		l := b.Client(t, nil).RedissonMutex("orders")
		theirs := foreign{rlock, b.Redis(t), "orders"}
		for n := range 20 {
			token := strconv.Itoa(n)
			expect.Equal(t, "they get a free lock", theirs.try(t, token, time.Minute), true)
			leases := backend.Start(t, l)
			time.Sleep(5 * time.Second) // until its pauses are as long as they get
			released := time.Now()
			theirs.unlock(t, token)
			lease := backend.Receive(t, leases)
			expect.AtMost(t, "the time from their release to a waiter's grant", time.Since(released), time.Millisecond)
			backend.Release(t, lease)
		}
	})
}
