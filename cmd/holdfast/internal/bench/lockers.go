package bench

import (
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"time"

	cryptorand "crypto/rand"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// locker makes a lock of a name. One goroutine at a time uses what it makes.
type locker func(name string) acquire

// acquire waits until the lock is the caller's.
type acquire func(ctx context.Context) (lease, error)

// lease is held until it is released, or lost.
type lease interface {
	// Err tells whether it was lost, as far as the caller can know.
	Err() error
	Release(ctx context.Context) error
}

func cycle(ctx context.Context, take acquire) error {
	l, err := take(ctx)
	if err != nil {
		return err
	}
	return l.Release(ctx)
}

// fenced is Holdfast's own.
func fenced(c *holdfast.Client) locker {
	return func(name string) acquire {
		l := c.Mutex(name)
		return func(ctx context.Context) (lease, error) {
			got, err := l.Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return got, nil
		}
	}
}

//go:embed lua/compare_and_delete.lua
var compareAndDelete string

var deletion = redis.NewScript(compareAndDelete)

// pollInterval is how long who uses the bare commands waits before another try.
const pollInterval = 2 * time.Millisecond

// errGone says that a bare lock had ended before its holder released it. Only the release
// tells.
var errGone = errors.New("the bare lock was gone before it was released")

// bare is the canonical lock: SET NX PX, and a script that compares and deletes.
func bare(rdb redis.UniversalClient, space keys.Space) locker {
	return func(name string) acquire {
		var token [16]byte
		_, _ = cryptorand.Read(token[:]) // never fails, since Go 1.24
		set, err := space.Name(name)
		l := &bareLock{rdb: rdb, key: set.Lock, token: hex.EncodeToString(token[:])}
		return func(ctx context.Context) (lease, error) {
			if err == nil {
				return l, l.acquire(ctx)
			}
			return nil, err
		}
	}
}

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
		case <-time.After(pollInterval):
		}
	}
}

func (l *bareLock) Err() error { return nil }

func (l *bareLock) Release(ctx context.Context) error {
	n, err := deletion.Run(context.WithoutCancel(ctx), l.rdb, []string{l.key}, l.token).Int()
	if err == nil && n != 1 {
		return errGone
	}
	return err
}

// lost reports whether err says that a lock had ended before its release.
func lost(err error) bool { return errors.Is(err, holdfast.ErrLost) || errors.Is(err, errGone) }
