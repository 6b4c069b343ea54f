package main

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis/rueidislock"
)

func openRedsync(j job) (locker, error) { return newRedsync(j), nil }

func openRedsyncTuned(j job) (locker, error) {
	return newRedsync(j, redsync.WithRetryDelay(pollInterval), redsync.WithTries(math.MaxInt)), nil
}

// newRedsync makes a pool for each server. A mutex that has given up, after a number of tries, begins again.
func newRedsync(j job, options ...redsync.Option) locker {
	options = append(options, redsync.WithExpiry(ttl))
	var pools []redsyncredis.Pool
	var ends []func() error
	for _, addr := range j.Addrs {
		rdb := dialGoredis([]string{addr})
		pools, ends = append(pools, goredis.NewPool(rdb)), append(ends, rdb.Close)
	}
	rs := redsync.New(pools...)
	return &maker{
		mutex: func(name string) lock {
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
		end: func() {
			for _, end := range ends {
				_ = end()
			}
		},
	}
}

// openRedislock retries as in the package's documentation.
func openRedislock(j job) (locker, error) {
	return newRedislock(j, func() redislock.RetryStrategy {
		return redislock.LimitRetry(redislock.LinearBackoff(100*time.Millisecond), 3)
	}), nil
}

func openRedislockTuned(j job) (locker, error) {
	return newRedislock(j, func() redislock.RetryStrategy { return redislock.LinearBackoff(pollInterval) }), nil
}

// newRedislock needs a strategy for each Obtain: it has state.
func newRedislock(j job, retry func() redislock.RetryStrategy) locker {
	rdb := dialGoredis(j.Addrs)
	c := redislock.New(rdb)
	return &maker{
		mutex: func(name string) lock {
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
		end: func() { _ = rdb.Close() },
	}
}

// openRueidislock sets the timeout of commands, which is 20 ms by default; 0 leaves it. If a command of an acquire times
// out, rueidislock does not retry until a message about the lock arrives, and none does if nobody else wants the lock.
func openRueidislock(timeout time.Duration) func(job) (locker, error) {
	return func(j job) (locker, error) {
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
		return &maker{end: l.Close, mutex: func(name string) lock {
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
