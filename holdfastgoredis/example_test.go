package holdfastgoredis_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
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
	// before the lock can be somebody else's.
	err = locks.Mutex("invoices").Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
		return post(ctx, l.Token())
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A lock that three servers hold, of which one may be down, or come back empty.
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
	quorum, err := holdfast.NewQuorum(nodes...)
	if err != nil {
		log.Fatal(err)
	}
	// Once for new servers, by hand: quorum.Init(ctx, false)
	err = quorum.Mutex("settlement").Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
		return post(ctx, l.Token())
	})
	if err != nil {
		log.Fatal(err)
	}
}
