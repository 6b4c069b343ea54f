package virtual

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// unconfirmed is a driver whose subscriptions reach the server late.
type unconfirmed struct {
	drivertest.Driver
	by            time.Duration
	subscriptions atomic.Int64
}

func (d *unconfirmed) wrap(inner drivertest.Driver) drivertest.Driver {
	d.Driver = inner
	return d
}

func (d *unconfirmed) Subscribe(s driver.Subscription) (cancel func()) {
	d.subscriptions.Add(1)
	ctx, end := context.WithCancel(context.Background())
	time.AfterFunc(d.by, func() {
		if ctx.Err() == nil {
			context.AfterFunc(ctx, d.Driver.Subscribe(s))
		}
	})
	return end
}

// If a subscription takes less than three seconds to be confirmed, all waiters wait for it: nobody polls, and
// it is not opened again.
func TestASlowSubscriptionIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		const locks = 10
		d := unconfirmed{by: 2500 * time.Millisecond}
		var polls atomic.Int64
		holder, waiter := client(t, srv), client(t, srv, d.wrap, meddle(func(r request) (string, error) {
			if r.Script.Name == "acquire" && strings.Contains(r.Args[0], "t") { // without a place in the queue
				polls.Add(1)
			}
			return r.send()
		}))
		var held []*holdfast.Lease
		var waits []*waiting
		for i := range locks {
			held = append(held, acquire(t, holder.Mutex(fmt.Sprint("lock", i))))
			waits = append(waits, inLine(t, waiter.Mutex(fmt.Sprint("lock", i))))
		}
		polls.Store(0) // each waiter's first request
		time.Sleep(10 * time.Second)
		if subscriptions := d.subscriptions.Load(); subscriptions != 1 || polls.Load() > 0 {
			t.Errorf("%d subscriptions and %d polls, want one subscription and no poll", subscriptions, polls.Load())
		}
		for i, lease := range held {
			release(t, lease)
			waits[i].served(t, time.Second)
		}
	})
}
