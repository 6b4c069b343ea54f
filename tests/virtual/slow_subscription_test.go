package virtual

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// belated is a driver whose subscriptions reach the server late.
type belated struct {
	drivertest.Driver
	by time.Duration

	mu            sync.Mutex
	subscriptions int
	polls         int // acquires without a place in the queue
}

func (d *belated) wrap(inner drivertest.Driver) drivertest.Driver {
	d.Driver = inner
	return d
}

func (d *belated) Subscribe(s driver.Subscription) (cancel func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscriptions++
	ctx, end := context.WithCancel(context.Background())
	time.AfterFunc(d.by, func() {
		if ctx.Err() == nil {
			context.AfterFunc(ctx, d.Driver.Subscribe(s))
		}
	})
	return end
}

func (d *belated) Run(ctx context.Context, call driver.Call) (string, error) {
	if call.Script.Name == "acquire" && strings.Contains(call.Args[0], "t") {
		d.mu.Lock()
		d.polls++
		d.mu.Unlock()
	}
	return d.Driver.Run(ctx, call)
}

// If a subscription takes less than three seconds to be confirmed, all waiters wait for it: nobody polls, and
// it is not opened again.
func TestASlowSubscriptionIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		const locks = 10
		d := belated{by: 2500 * time.Millisecond}
		holder, waiter := client(t, srv), client(t, srv, d.wrap)
		var held []*holdfast.Lease
		var waits []*waiting
		for i := range locks {
			held = append(held, acquire(t, holder.Mutex(fmt.Sprint("lock", i))))
			waits = append(waits, inLine(t, waiter.Mutex(fmt.Sprint("lock", i))))
		}
		d.mu.Lock()
		d.polls = 0 // each waiter's first request
		d.mu.Unlock()
		time.Sleep(10 * time.Second)
		d.mu.Lock()
		if d.subscriptions != 1 || d.polls > 0 {
			t.Errorf("%d subscriptions and %d polls, want one subscription and no poll", d.subscriptions, d.polls)
		}
		d.mu.Unlock()
		for i, lease := range held {
			release(t, lease)
			waits[i].served(t, time.Second)
		}
	})
}
