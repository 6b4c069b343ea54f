package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

// locker is a way to lock. It makes a handle of the lock with a name. Only one goroutine at a time may use a handle.
type locker func(name string) acquire

// acquire waits until the lock is granted.
type acquire func(ctx context.Context) (lease, error)

// lease is a lock that is held, until it is released or lost.
type lease interface {
	// Err returns an error if the holder knows that the lease is lost.
	Err() error
	Release(ctx context.Context) error
}

// cycle acquires and releases.
func cycle(ctx context.Context, take acquire) error {
	l, err := take(ctx)
	if err != nil {
		return err
	}
	return l.Release(ctx)
}

// isLoss reports whether err says that a lock was lost before its release.
func isLoss(err error) bool { return errors.Is(err, holdfast.ErrLost) || errors.Is(err, errBareLost) }

// holdfastLocker locks with Holdfast.
func holdfastLocker(c *holdfast.Client) locker {
	return func(name string) acquire {
		l := c.Mutex(name)
		return func(ctx context.Context) (lease, error) { return l.Acquire(ctx) }
	}
}

var compareAndDelete = redis.NewScript(measure.CompareAndDelete)

// barePoll is how long a waiter for a bare lock waits between tries.
const barePoll = 2 * time.Millisecond

// errBareLost says that a bare lock had expired, or was deleted, before its release. Only the release notices that.
var errBareLost = errors.New("the bare lock was lost before its release")

// bareLocker locks with SET NX PX and a script that compares and deletes.
func bareLocker(rdb redis.UniversalClient, key func(name string) string) locker {
	return func(name string) acquire {
		l := &bareLock{rdb: rdb, key: key(name), token: rand.Text()}
		return func(ctx context.Context) (lease, error) { return l, l.acquire(ctx) }
	}
}

// bareLock is a bare lock and its lease. It can be acquired again after its release.
type bareLock struct {
	rdb        redis.UniversalClient
	key, token string
}

func (l *bareLock) acquire(ctx context.Context) error {
	for {
		ok, err := l.rdb.SetNX(ctx, l.key, l.token, ttl).Result()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(barePoll):
		}
	}
}

func (l *bareLock) Err() error { return nil }

func (l *bareLock) Release(ctx context.Context) error {
	n, err := compareAndDelete.Run(context.WithoutCancel(ctx), l.rdb, []string{l.key}, l.token).Int()
	if err == nil && n != 1 {
		return errBareLost
	}
	return err
}
