package holdfastvalkey_test

import (
	"context"
	"log"

	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastvalkey"
)

func post(ctx context.Context, fence uint64) error { return nil }

func Example() {
	locks, err := holdfastvalkey.New(valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}, nil)
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
