package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

var (
	deleteByGoredis = redis.NewScript(measure.CompareAndDelete)
	deleteByRueidis = rueidis.NewLuaScript(measure.CompareAndDelete)
)

// newBare makes the usual lock, which is the floor: it has no fence and no renewal, and waiters poll.
func newBare(set func(ctx context.Context, key, token string) (bool, error), del func(ctx context.Context, key, token string) error, end func()) locker {
	var handles atomic.Int64
	return &maker{end: end, mutex: func(key string) lock {
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
	return newBare(
		func(ctx context.Context, key, token string) (bool, error) {
			return c.SetNX(ctx, key, token, ttl).Result()
		},
		func(ctx context.Context, key, token string) error {
			return deleteByGoredis.Run(ctx, c, []string{key}, token).Err()
		},
		func() { _ = rdb.Close() })
}

func bareRueidis(j job) (locker, error) {
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
