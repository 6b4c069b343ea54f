package holdfastrueidis_test

import (
	"context"
	"log"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
)

func post(ctx context.Context, fence uint64) error { return nil }

func Example() {
	locks, err := holdfastrueidis.New(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer locks.Close(ctx)

	err = locks.Mutex("invoices").Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
		return post(ctx, l.Fence())
	})
	if err != nil {
		log.Fatal(err)
	}
}
