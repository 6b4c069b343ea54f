package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/measure"
)

var (
	deleteByGoredis = redis.NewScript(measure.CompareAndDelete)
	deleteByRueidis = rueidis.NewLuaScript(measure.CompareAndDelete)
)

// bare is the usual lock, which is the floor: it has no fence and no renewal, and waiters poll.
type bare struct {
	set    func(ctx context.Context, key, token string) (bool, error)
	delete func(ctx context.Context, key, token string) error
	end    func()

	handles atomic.Int64
}

func (b *bare) lock(name string) lock {
	return &bareLock{b, name, fmt.Sprintf("%011d%011d", os.Getpid(), b.handles.Add(1))}
}

func (b *bare) close() { b.end() }

type bareLock struct {
	b          *bare
	key, token string
}

func (l *bareLock) acquire(ctx context.Context) error {
	for {
		if ok, err := l.b.set(ctx, l.key, l.token); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

func (l *bareLock) release() error { return l.b.delete(context.Background(), l.key, l.token) }

func bareGoredis(j job) (locker, error) {
	rdb := dialGoredis(j.Addrs)
	return bareOver(rdb, rdb), nil
}

func bareAutoPipeline(j job) (locker, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addrs[0]})
	pipeline, err := rdb.AutoPipeline()
	if err != nil {
		return nil, err
	}
	return bareOver(rdb, pipeline), nil
}

func bareOver(rdb io.Closer, c redis.Cmdable) locker {
	return &bare{
		set: func(ctx context.Context, key, token string) (bool, error) {
			return c.SetNX(ctx, key, token, ttl).Result()
		},
		delete: func(ctx context.Context, key, token string) error {
			return deleteByGoredis.Run(ctx, c, []string{key}, token).Err()
		},
		end: func() { _ = rdb.Close() },
	}
}

func bareRueidis(j job) (locker, error) {
	c, err := rueidis.NewClient(rueidisOption(j.Addrs))
	if err != nil {
		return nil, err
	}
	return &bare{
		set: func(ctx context.Context, key, token string) (bool, error) {
			err := c.Do(ctx, c.B().Set().Key(key).Value(token).Nx().PxMilliseconds(ttl.Milliseconds()).Build()).Error()
			if rueidis.IsRedisNil(err) {
				return false, nil
			}
			return err == nil, err
		},
		delete: func(ctx context.Context, key, token string) error {
			return deleteByRueidis.Exec(ctx, c, []string{key}, []string{token}).Error()
		},
		end: c.Close,
	}, nil
}
