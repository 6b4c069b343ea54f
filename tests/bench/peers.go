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
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"
)

// again calls try until it succeeds, ctx ends, or it fails with another error than taken: some peers give up after a
// number of tries.
func again(ctx context.Context, taken error, try func() error) error {
	for {
		err := try()
		if err == nil || !errors.Is(err, taken) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func openRedsync(j job) (locker, error) { return newRedsync(j), nil }

func openRedsyncTuned(j job) (locker, error) {
	return newRedsync(j, redsync.WithRetryDelay(pollInterval), redsync.WithTries(math.MaxInt)), nil
}

type redsyncLocker struct {
	rdbs    []redis.UniversalClient
	rs      *redsync.Redsync
	options []redsync.Option
}

// newRedsync makes a pool for each server.
func newRedsync(j job, options ...redsync.Option) *redsyncLocker {
	l := &redsyncLocker{options: append(options, redsync.WithExpiry(ttl))}
	var pools []redsyncredis.Pool
	for _, addr := range j.Addrs {
		rdb := dialGoredis([]string{addr})
		l.rdbs, pools = append(l.rdbs, rdb), append(pools, goredis.NewPool(rdb))
	}
	l.rs = redsync.New(pools...)
	return l
}

func (l *redsyncLocker) lock(name string) lock {
	return &redsyncLock{l.rs.NewMutex(name, l.options...)}
}

func (l *redsyncLocker) close() {
	for _, rdb := range l.rdbs {
		_ = rdb.Close()
	}
}

type redsyncLock struct{ m *redsync.Mutex }

func (l *redsyncLock) acquire(ctx context.Context) error {
	return again(ctx, redsync.ErrFailed, func() error {
		err := l.m.LockContext(ctx)
		if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) {
			return redsync.ErrFailed
		}
		return err
	})
}

func (l *redsyncLock) release() error {
	_, err := l.m.Unlock()
	return err
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

type redislockLocker struct {
	rdb   redis.UniversalClient
	c     *redislock.Client
	retry func() redislock.RetryStrategy // a strategy has state, so each Obtain needs its own
}

func newRedislock(j job, retry func() redislock.RetryStrategy) *redislockLocker {
	rdb := dialGoredis(j.Addrs)
	return &redislockLocker{rdb, redislock.New(rdb), retry}
}

func (l *redislockLocker) lock(name string) lock { return &redislockLock{l: l, name: name} }

func (l *redislockLocker) close() { _ = l.rdb.Close() }

type redislockLock struct {
	l    *redislockLocker
	name string
	held *redislock.Lock
}

func (l *redislockLock) acquire(ctx context.Context) error {
	return again(ctx, redislock.ErrNotObtained, func() (err error) {
		l.held, err = l.l.c.Obtain(ctx, l.name, ttl, &redislock.Options{RetryStrategy: l.l.retry()})
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // it waits for at most the TTL
			return redislock.ErrNotObtained
		}
		return err
	})
}

func (l *redislockLock) release() error { return l.held.Release(context.Background()) }

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
		return &rueidislockLocker{l}, nil
	}
}

type rueidislockLocker struct{ l rueidislock.Locker }

func (l *rueidislockLocker) lock(name string) lock { return &rueidislockLock{l: l.l, name: name} }

func (l *rueidislockLocker) close() { l.l.Close() }

type rueidislockLock struct {
	l      rueidislock.Locker
	name   string
	held   context.Context
	cancel context.CancelFunc
}

func (l *rueidislockLock) acquire(ctx context.Context) (err error) {
	l.held, l.cancel, err = l.l.WithContext(ctx, l.name)
	return err
}

func (l *rueidislockLock) release() error {
	l.cancel()
	return nil
}

func (l *rueidislockLock) lost() bool { return l.held.Err() != nil }
