package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// The two scripts of Redisson's RLock, as in RedissonLock.class of redisson 4.7.0, with a difference that the second
// describes.
var (
	//go:embed redisson_lock.lua
	redissonLockSource string
	//go:embed redisson_unlock.lua
	redissonUnlockSource string

	redissonLock   = redis.NewScript(redissonLockSource)
	redissonUnlock = redis.NewScript(redissonUnlockSource)
)

// redissonMutex waits as RedissonLock.lock does: it asks; subscribes to the lock's channel, and asks again; asks once more
// whenever a message says that the lock is free; and unsubscribes when it has the lock. It does not renew the lock.
type redissonMutex struct {
	rdb          redis.UniversalClient
	keys         []string // the lock, its channel
	holder       string
	subscription *redis.PubSub // which has no channel between acquires
	heard        <-chan any    // confirmations and messages
}

func newRedissonMutex(rdb redis.UniversalClient, name string, handle int64) *redissonMutex {
	return &redissonMutex{
		rdb:    rdb,
		keys:   []string{name, "redisson_lock__channel:{" + name + "}"},
		holder: fmt.Sprintf("%08x-0000-4000-8000-000000000000:%d", os.Getpid(), handle),
	}
}

func (m *redissonMutex) acquire(ctx context.Context) error {
	if _, ok, err := m.try(ctx); ok || err != nil {
		return err
	}
	if err := m.subscribe(ctx); err != nil {
		return err
	}
	defer func() { _ = m.subscription.Unsubscribe(context.Background(), m.keys[1]) }()
	for {
		rest, ok, err := m.try(ctx)
		if ok || err != nil {
			return err
		}
		if err := m.awaitMessage(ctx, rest); err != nil {
			return err
		}
	}
}

// try returns how long the holder's lease lasts if the lock was not acquired.
func (m *redissonMutex) try(ctx context.Context) (rest time.Duration, ok bool, err error) {
	ms, err := redissonLock.Run(ctx, m.rdb, m.keys[:1], ttl.Milliseconds(), m.holder).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, true, nil
	}
	return time.Duration(ms) * time.Millisecond, false, err
}

func (m *redissonMutex) subscribe(ctx context.Context) error {
	if m.subscription == nil {
		m.subscription = m.rdb.Subscribe(ctx)
		m.heard = m.subscription.ChannelWithSubscriptions()
	}
	if err := m.subscription.Subscribe(ctx, m.keys[1]); err != nil {
		return err
	}
	for {
		select {
		case what := <-m.heard:
			if s, is := what.(*redis.Subscription); is && s.Kind == "subscribe" {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitMessage returns when the lock may be free. Further messages that have arrived tell no more.
func (m *redissonMutex) awaitMessage(ctx context.Context, rest time.Duration) error {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-m.heard:
		for len(m.heard) > 0 {
			<-m.heard
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (m *redissonMutex) release() error {
	err := redissonUnlock.Run(context.Background(), m.rdb, m.keys, "0", ttl.Milliseconds(), m.holder).Err()
	if errors.Is(err, redis.Nil) {
		return errNotHeld
	}
	return err
}
