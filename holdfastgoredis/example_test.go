package holdfastgoredis_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/quorum"
)

func post(ctx context.Context, fence uint64) error { return nil }

func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer rdb.Close()
	locks, err := holdfastgoredis.New(rdb, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer locks.Close(ctx)

	// One process at a time posts the invoices. The inner ctx ends, with a cause,
	// before another process can acquire the lock.
	err = locks.Mutex("invoices").Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
		return post(ctx, l.Fence())
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A quorum's locks are held on a majority of three servers, so one of them may be down, or come back empty.
func Example_quorum() {
	ctx := context.Background()
	var nodes []*holdfast.Client
	for _, addr := range []string{"10.0.0.1:6379", "10.0.1.1:6379", "10.0.2.1:6379"} {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		defer rdb.Close()
		node, err := holdfastgoredis.New(rdb, &holdfast.Config{Strict: true})
		if err != nil {
			log.Fatal(err)
		}
		defer node.Close(ctx)
		nodes = append(nodes, node)
	}
	theQuorum, err := quorum.New(nodes, nil)
	if err != nil {
		log.Fatal(err)
	}
	// For new servers, call quorum.Admit(ctx) once, by hand.
	err = theQuorum.Mutex("settlement").Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
		return post(ctx, l.Fence())
	})
	if err != nil {
		log.Fatal(err)
	}
}
