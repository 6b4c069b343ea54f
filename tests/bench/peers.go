package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

func openRedsync(j job) (*locker, error) { return newRedsync(j), nil }

func openRedsyncTuned(j job) (*locker, error) {
	return newRedsync(j, redsync.WithRetryDelay(pollInterval), redsync.WithTries(math.MaxInt)), nil
}

// newRedsync makes a pool for each server. A mutex that has given up, after a number of tries, begins again.
func newRedsync(j job, options ...redsync.Option) *locker {
	options = append(options, redsync.WithExpiry(ttl))
	var pools []redsyncredis.Pool
	var ends []func() error
	for _, addr := range j.Addrs {
		rdb := dialGoredis([]string{addr})
		pools, ends = append(pools, goredis.NewPool(rdb)), append(ends, rdb.Close)
	}
	rs := redsync.New(pools...)
	return &locker{
		lock: func(name string) lock {
			m := rs.NewMutex(name, options...)
			return &handle{
				take: func(ctx context.Context) error {
					return again(ctx, redsync.ErrFailed, 0, func() error {
						err := m.LockContext(ctx)
						if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) {
							return redsync.ErrFailed
						}
						return err
					})
				},
				free: func() error {
					_, err := m.Unlock()
					return err
				},
			}
		},
		close: func() {
			for _, end := range ends {
				_ = end()
			}
		},
	}
}

// openRedislock retries as in the package's documentation.
func openRedislock(j job) (*locker, error) {
	return newRedislock(j, func() redislock.RetryStrategy {
		return redislock.LimitRetry(redislock.LinearBackoff(100*time.Millisecond), 3)
	}), nil
}

func openRedislockTuned(j job) (*locker, error) {
	return newRedislock(j, func() redislock.RetryStrategy { return redislock.LinearBackoff(pollInterval) }), nil
}

// newRedislock needs a strategy for each Obtain: it has state.
func newRedislock(j job, retry func() redislock.RetryStrategy) *locker {
	rdb := dialGoredis(j.Addrs)
	c := redislock.New(rdb)
	return &locker{
		lock: func(name string) lock {
			var held *redislock.Lock
			return &handle{
				take: func(ctx context.Context) error {
					return again(ctx, redislock.ErrNotObtained, 0, func() (err error) {
						held, err = c.Obtain(ctx, name, ttl, &redislock.Options{RetryStrategy: retry()})
						if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // it waits for at most the TTL
							return redislock.ErrNotObtained
						}
						return err
					})
				},
				free: func() error { return held.Release(context.Background()) },
			}
		},
		close: func() { _ = rdb.Close() },
	}
}

// openRueidislock sets the timeout of commands, which is 20 ms by default; 0 leaves it. If a command of an acquire times
// out, rueidislock does not retry until a message about the lock arrives, and none does if nobody else wants the lock.
func openRueidislock(timeout time.Duration) func(job) (*locker, error) {
	return func(j job) (*locker, error) {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidisOption(j.Addrs),
			KeyMajority:    1,
			KeyValidity:    ttl,
			NoLoopTracking: true,
			TryNextAfter:   timeout,
		})
		if err != nil {
			return nil, err
		}
		return &locker{close: l.Close, lock: func(name string) lock {
			var held context.Context
			var cancel context.CancelFunc
			return &handle{
				take: func(ctx context.Context) (err error) {
					held, cancel, err = l.WithContext(ctx, name)
					return err
				},
				free: func() error {
					cancel()
					return nil
				},
				isLost: func() bool { return held.Err() != nil },
			}
		}}, nil
	}
}

var (
	deleteByGoredis = redis.NewScript(measure.CompareAndDelete)
	deleteByRueidis = rueidis.NewLuaScript(measure.CompareAndDelete)
)

// newBare makes the usual lock, which is the floor: it has no fence and no renewal, and waiters poll.
func newBare(set func(ctx context.Context, key, token string) (bool, error), del func(ctx context.Context, key, token string) error, end func()) *locker {
	var handles atomic.Int64
	return &locker{close: end, lock: func(key string) lock {
		token := fmt.Sprintf("%011d%011d", os.Getpid(), handles.Add(1))
		return &handle{
			take: func(ctx context.Context) error {
				return again(ctx, errTaken, pollInterval, func() error {
					ok, err := set(ctx, key, token)
					if err == nil && !ok {
						return errTaken
					}
					return err
				})
			},
			free: func() error { return del(context.Background(), key, token) },
		}
	}}
}

func bareGoredis(j job) (*locker, error) {
	rdb := dialGoredis(j.Addrs)
	return bareOver(rdb, rdb), nil
}

func bareAutoPipeline(j job) (*locker, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addrs[0]})
	pipeline, err := rdb.AutoPipeline()
	if err != nil {
		return nil, err
	}
	return bareOver(rdb, pipeline), nil
}

func bareOver(rdb io.Closer, c redis.Cmdable) *locker {
	return newBare(
		func(ctx context.Context, key, token string) (bool, error) {
			return c.SetNX(ctx, key, token, ttl).Result()
		},
		func(ctx context.Context, key, token string) error {
			return deleteByGoredis.Run(ctx, c, []string{key}, token).Err()
		},
		func() { _ = rdb.Close() })
}

func bareRueidis(j job) (*locker, error) {
	c, err := rueidis.NewClient(rueidisOption(j.Addrs))
	if err != nil {
		return nil, err
	}
	return newBare(
		func(ctx context.Context, key, token string) (bool, error) {
			err := c.Do(ctx, c.B().Set().Key(key).Value(token).Nx().PxMilliseconds(ttl.Milliseconds()).Build()).Error()
			if rueidis.IsRedisNil(err) {
				return false, nil
			}
			return err == nil, err
		},
		func(ctx context.Context, key, token string) error {
			return deleteByRueidis.Exec(ctx, c, []string{key}, []string{token}).Error()
		},
		c.Close), nil
}
