package virtual

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// belated is a driver whose subscriptions reach the server late.
type belated struct {
	holdfast.Driver
	by time.Duration

	mu            sync.Mutex
	subscriptions int
	polls         int // acquires that ask for no place in the queue
}

func (d *belated) wrap(inner holdfast.Driver) holdfast.Driver {
	d.Driver = inner
	return d
}

func (d *belated) Subscribe(channel string, sharded bool, sink holdfast.Sink) holdfast.Subscription {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscriptions++
	ctx, end := context.WithCancel(context.Background())
	time.AfterFunc(d.by, func() {
		if ctx.Err() == nil {
			s := d.Driver.Subscribe(channel, sharded, sink)
			context.AfterFunc(ctx, s.Close)
		}
	})
	return closing(end)
}

func (d *belated) Eval(ctx context.Context, s holdfast.Script, keys, args []string, urgent bool) (string, error) {
	if s.Name == "acquire" && strings.Contains(args[0], "t") {
		d.mu.Lock()
		d.polls++
		d.mu.Unlock()
	}
	return d.Driver.Eval(ctx, s, keys, args, urgent)
}

// A subscription that takes less than three seconds to be confirmed is waited for, however many wait: nobody polls, and
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
		d.polls = 0 // the first request of each
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
