package holdfastgoredis_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

func post(ctx context.Context, fence uint64) error { return nil }

func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer rdb.Close()
	locks, err := holdfast.New(holdfastgoredis.New(rdb), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer locks.Close(ctx)

	// One process at a time posts the invoices. The inner ctx ends, with a cause,
	// before the lock can be somebody else's.
	err = locks.Mutex("invoices").Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
		return post(ctx, l.Token())
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleLock_TryAcquire() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer rdb.Close()
	locks, err := holdfast.New(holdfastgoredis.New(rdb), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer locks.Close(ctx)

	lease, err := locks.Mutex("reindex", holdfast.TTL(time.Minute)).TryAcquire(ctx)
	var held *holdfast.HeldError
	switch {
	case errors.As(err, &held):
		fmt.Println("somebody else is at it:", held.Holder.Owner)
		return
	case err != nil:
		log.Fatal(err)
	}
	defer lease.Release(ctx) // works even when ctx has been cancelled
	for page := range 1000 {
		if err := lease.Err(); err != nil {
			log.Fatal(err) // lost: stop before the next write
		}
		_ = page
	}
}

// A lock that other programs take with SET key token NX PX ttl, and release with a
// script that compares and deletes.
func ExampleKey() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer rdb.Close()
	locks, err := holdfast.New(holdfastgoredis.New(rdb), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer locks.Close(ctx)

	err = locks.Mutex("settlement", holdfast.Key("lock:settlement")).Do(ctx,
		func(ctx context.Context, l *holdfast.Lease) error { return post(ctx, l.Token()) })
	if err != nil {
		log.Fatal(err)
	}
}
