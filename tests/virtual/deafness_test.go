package virtual

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// unheard is a driver behind a proxy that confirms subscriptions itself: the server has none of them.
type unheard struct {
	drivertest.Driver
	scripts, subscriptions *atomic.Int64
}

func (d unheard) Subscribe(s driver.Subscription) (cancel func()) {
	d.subscriptions.Add(1)
	confirmed := time.AfterFunc(5*time.Millisecond, s.Up)
	return func() { confirmed.Stop() }
}

func (d unheard) Run(ctx context.Context, call driver.Call) (string, error) {
	d.scripts.Add(1)
	return d.Driver.Run(ctx, call)
}

func (d unheard) RunAll(ctx context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	d.scripts.Add(int64(len(calls)))
	d.Driver.RunAll(ctx, calls, tell)
}

// Fault: The server does not know the one channel of the waiters of many locks. They poll, and keep neither the
// server nor each other busy.
func TestManyWaitersWhomTheServerDoesNotKnow(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		const locks = 10
		var scripts, subscriptions atomic.Int64
		holder := client(t, srv)
		waiter := client(t, srv, func(d drivertest.Driver) drivertest.Driver { return unheard{d, &scripts, &subscriptions} })
		var held []*holdfast.Lease
		var waits []*waiting
		for i := range locks {
			held = append(held, acquire(t, holder.Mutex(fmt.Sprint("lock", i))))
			waits = append(waits, wait(t, waiter.Mutex(fmt.Sprint("lock", i))))
		}
		time.Sleep(10 * time.Second) // until all poll
		scripts.Store(0)
		subscriptions.Store(0)
		const minutes = 2
		time.Sleep(minutes * time.Minute)
		// A second between two polls, less a tenth for jitter, and three attempts to be heard every 30 s, once more
		// than fit into these minutes.
		if most := int64(locks * minutes * 60 * 5 / 4); scripts.Load() > most {
			t.Errorf("%d scripts in %d minutes; %d polls a second are at most %d", scripts.Load(), minutes, locks, most)
		}
		if most := int64((2*minutes + 1) * 3); subscriptions.Load() > most {
			t.Errorf("%d subscriptions in %d minutes, want %d at most", subscriptions.Load(), minutes, most)
		}
		for i, lease := range held {
			release(t, lease)
			waits[i].served(t, 2*time.Second)
		}
	})
}
