// Command fenced-redis shows a value in Redis that refuses a holder that was paused beyond its lease. It runs without
// any setup:
//
//	go run ./fenced-redis
package main

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/scene"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

// account is a balance stored in a key.
type account struct {
	rdb   *redis.Client
	guard *fence.Redis
}

const key = "balance"

func (a account) Add(ctx context.Context, lease *holdfast.Lease, amount int, think func()) error {
	stamp, err := fence.Of(lease)
	if err != nil {
		return err
	}
	// After Raise no earlier holder can change the balance that is read below.
	if err := a.guard.Raise(ctx, stamp, key); err != nil {
		return err
	}
	balance, err := a.Balance(ctx)
	if err != nil {
		return err
	}
	think()
	return a.guard.Set(ctx, stamp, key, strconv.Itoa(balance+amount), 0)
}

func (a account) Balance(ctx context.Context) (int, error) { return a.rdb.Get(ctx, key).Int() }

var example = scene.Example{
	Create: func(rdb *redis.Client) (string, func(), error) {
		return "", func() {}, rdb.Set(context.Background(), key, 100, 0).Err()
	},
	Open: func(rdb *redis.Client, _ string) (scene.Account, error) {
		d, err := holdfastgoredis.NewDriver(rdb)
		if err != nil {
			return nil, err
		}
		return account{rdb, fence.NewRedis(d, nil)}, nil
	},
}

func main() { example.Main() }
