package migration

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// name is that of the lock in all programs.
const name = "orders"

// ttl is the lease time of all locks, and timeout that of all commands: none is to run out while a test runs.
const (
	ttl     = time.Minute
	timeout = 10 * time.Second
)

// poll is how often the old instances ask that do not wait for a message.
const poll = 3 * time.Millisecond

// work is what a lock guards. fence is the grant's, 0 if it has none.
type work func(ctx context.Context, fence uint64) error

// instance is a process of a program, with connections of its own. It calls f once, under the lock.
type instance func(ctx context.Context, f work) error

// release is a version of a program.
type release struct {
	what string
	open func(t *testing.T, addrs []string) instance
}

// within is a release that holds the outer release's lock, and within it the inner one's.
func within(outer, inner release) release {
	return release{outer.what + ", " + inner.what, func(t *testing.T, addrs []string) instance {
		first, second := outer.open(t, addrs), inner.open(t, addrs)
		return func(ctx context.Context, f work) error {
			return first(ctx, func(ctx context.Context, outer uint64) error {
				return second(ctx, func(ctx context.Context, inner uint64) error { return f(ctx, cmp.Or(inner, outer)) })
			})
		}
	}}
}

// form is a lock of ours.
type form struct {
	what string
	lock func(c *holdfast.Client) *holdfast.Lock
}

var byName = form{"Mutex", func(c *holdfast.Client) *holdfast.Lock { return c.Mutex(name) }}

func byKey(key string) form {
	return form{fmt.Sprintf("MutexKey(%q)", key), func(c *holdfast.Client) *holdfast.Lock { return c.MutexKey(key) }}
}

var redisson = form{"RedissonMutex", func(c *holdfast.Client) *holdfast.Lock { return c.RedissonMutex(name) }}

// ours is a release that holds these locks of one client, each within those before it.
func ours(forms ...form) release {
	what := ""
	for _, l := range forms {
		what += " " + l.what
	}
	return release{"holdfast" + what, func(t *testing.T, addrs []string) instance {
		c := client(t, addrs[0], nil)
		return func(ctx context.Context, f work) error {
			for _, one := range slices.Backward(forms) {
				l, inner := one.lock(c), f
				f = func(ctx context.Context, _ uint64) error {
					return l.Do(ctx, func(ctx context.Context, lease *holdfast.Lease) error { return inner(ctx, lease.Fence()) })
				}
			}
			return f(ctx, 0)
		}
	}}
}

// quorum is a release that holds the lock of a quorum. Its nodes have been admitted.
var theQuorum = release{"holdfast Quorum", func(t *testing.T, addrs []string) instance {
	l := quorumOf(t, addrs).Mutex(name)
	return func(ctx context.Context, f work) error {
		return l.Do(ctx, func(ctx context.Context, lease *holdfast.Lease) error { return f(ctx, lease.Fence()) })
	}
}}

func quorumOf(t *testing.T, addrs []string) *quorum.Quorum {
	t.Helper()
	var nodes []*holdfast.Client
	for _, addr := range addrs {
		nodes = append(nodes, client(t, addr, &holdfast.Config{Strict: true}))
	}
	return expect.Of(quorum.New(nodes, nil)).OK(t)
}

func client(t *testing.T, addr string, cfg *holdfast.Config) *holdfast.Client {
	t.Helper()
	if cfg == nil {
		cfg = &holdfast.Config{}
	}
	cfg.TTL, cfg.CommandTimeout, cfg.RetryTimeout = ttl, timeout, 2*timeout
	c := expect.Of(holdfastgoredis.New(dial(t, addr), cfg)).OK(t)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func dial(t *testing.T, addr string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: addr, DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// bySET is SET NX PX, and a script that compares and deletes.
var bySET = release{"SET NX PX", func(t *testing.T, addrs []string) instance {
	rdb := dial(t, addrs[0])
	return byHand(rdb, func(ctx context.Context, token string) (bool, error) {
		return rdb.SetNX(ctx, name, token, ttl).Result()
	})
}}

// bySETNX is SETNX, then EXPIRE.
var bySETNX = release{"SETNX, EXPIRE", func(t *testing.T, addrs []string) instance {
	rdb := dial(t, addrs[0])
	return byHand(rdb, func(ctx context.Context, token string) (bool, error) {
		ok, err := rdb.SetNX(ctx, name, token, 0).Result()
		if ok {
			err = rdb.Expire(ctx, name, ttl).Err()
		}
		return ok, err
	})
}}

var compareAndDelete = redis.NewScript(`
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`)

func byHand(rdb *redis.Client, try func(ctx context.Context, token string) (bool, error)) instance {
	return func(ctx context.Context, f work) error {
		token := rand.Text()
		for {
			ok, err := try(ctx, token)
			if err != nil {
				return err
			}
			if ok {
				break
			}
			time.Sleep(poll)
		}
		err := f(ctx, 0)
		n, failed := compareAndDelete.Run(ctx, rdb, []string{name}, token).Int()
		if n != 1 {
			failed = cmp.Or(failed, errNotReleased)
		}
		return errors.Join(err, failed)
	}
}

// errNotReleased is what an old instance returns if the lock is not its own any more.
var errNotReleased = errors.New("the lock is somebody else's")

// oldRedsync has a pool for each server.
var oldRedsync = release{"redsync", func(t *testing.T, addrs []string) instance {
	var pools []redsyncredis.Pool
	for _, addr := range addrs {
		pools = append(pools, goredis.NewPool(dial(t, addr)))
	}
	rs := redsync.New(pools...)
	return func(ctx context.Context, f work) error {
		mutex := rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt),
			redsync.WithRetryDelayFunc(func(int) time.Duration { return poll + mathrand.N(poll) }), // or two split the servers again and again
			redsync.WithTimeoutFactor(timeout.Seconds()/ttl.Seconds()))
		if err := mutex.LockContext(ctx); err != nil {
			return err
		}
		err := f(ctx, 0)
		ok, failed := mutex.UnlockContext(ctx)
		if !ok {
			failed = cmp.Or(failed, errNotReleased)
		}
		return errors.Join(err, failed)
	}
}}

var oldRedislock = release{"redislock", func(t *testing.T, addrs []string) instance {
	locker := redislock.New(dial(t, addrs[0]))
	return func(ctx context.Context, f work) error {
		lock, err := locker.Obtain(ctx, name, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(poll), Metadata: "old"})
		if err != nil {
			return err
		}
		return errors.Join(f(ctx, 0), lock.Release(ctx))
	}
}}

// oldRueidislock waits for 10 s for a command: if one is given up, a waiter may never wake.
func oldRueidislock(majority int32) release {
	return release{fmt.Sprintf("rueidislock, majority %d", majority), func(t *testing.T, addrs []string) instance {
		locker := rueidisLocker(t, addrs[0], majority)
		return func(ctx context.Context, f work) error {
			for {
				// A waiter may miss that the lock is free, and would sleep until the key changes again.
				asking, stop := context.WithTimeout(ctx, 2*time.Second)
				held, cancel, err := locker.WithContext(asking, name)
				if err == nil {
					err = f(held, 0)
					cancel()
				}
				stop()
				if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
					return err
				}
			}
		}
	}}
}

func rueidisLocker(t *testing.T, addr string, majority int32) rueidislock.Locker {
	t.Helper()
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}}, KeyMajority: majority, KeyValidity: ttl, TryNextAfter: timeout,
	})
	expect.OK(t, err)
	t.Cleanup(locker.Close)
	return locker
}
