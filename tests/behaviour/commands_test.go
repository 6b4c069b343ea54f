package behaviour

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// counting counts the commands of all drivers that share it. A slow machine sends more renewals of locks that
// are held for long, and more looks of waiters that wait for long, so it counts these separately.
type counting struct {
	drivertest.Driver
	sent, renewals, looks *atomic.Int64
}

func (d counting) Run(ctx context.Context, call driver.Call) (string, error) {
	switch {
	case call.Script.Name == "renew":
		d.renewals.Add(1)
	case call.Script.Name == "acquire" && strings.Contains(call.Args[0], "l"):
		d.looks.Add(1)
	default:
		d.sent.Add(1)
	}
	return d.Driver.Run(ctx, call)
}

// Each hand-over from client to client costs the same number of commands, however many clients wait.
func TestACrowdCostsNoMoreCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: part of make nightly")
	}
	// That many clients connect at once.
	patience := holdfast.Config{CommandTimeout: 30 * time.Second, RetryTimeout: time.Minute}
	backend.EachRealInTurn(t, func(t *testing.T, b *backend.Backend) {
		var cost []float64
		for _, waiting := range []int{2, 32, 256} {
			n := waiting + 1
			var sent, renewals, looks atomic.Int64
			var clients []*holdfast.Client
			for range n {
				rdb := b.Redis(t, func(o *redis.Options) { o.PoolSize = 2 })
				c, err := holdfast.New(counting{drivertest.Of(holdfastgoredis.NewDriver(rdb)), &sent, &renewals, &looks}, &patience)
				if err != nil {
					t.Fatal(err)
				}
				backend.CloseWith(t, c)
				clients = append(clients, c)
			}
			// Commands do not count before everybody waits, or after somebody has stopped.
			count := &handovers{first: n, last: 2*n + 500, sent: &sent}
			began := time.Now()
			lease := backend.Acquire(t, clients[0].Mutex("m"))
			var wg sync.WaitGroup
			for _, c := range clients[1:] {
				wg.Go(func() { compete(t, c, count.turn) })
			}
			backend.Waiters(t, clients[0].Mutex("m"), n-1)
			backend.Release(t, lease)
			wg.Go(func() { compete(t, clients[0], count.turn) })
			wg.Wait()
			cost = append(cost, float64(count.after-count.before)/float64(count.last-count.first))
			t.Logf("%d clients wait: %.2f commands a hand-over, %d renewals and %d looks in all", waiting, cost[len(cost)-1], renewals.Load(), looks.Load())
			// No waiter looks twice within half a second.
			if n, most := looks.Load(), int64(waiting)*int64(1+time.Since(began)/(500*time.Millisecond)); n > most {
				t.Errorf("%d clients wait: %d looks, want %d at most", waiting, n, most)
			}
			if t.Failed() {
				return
			}
		}
		for _, c := range cost {
			if c > cost[0]*1.1 || c < cost[0]*0.9 || c > 2.2 {
				t.Errorf("commands a hand-over, with 2, 32 and 256 clients waiting: %.2f", cost)
			}
		}
	})
}

// compete makes a client acquire the lock again and again until turn returns false.
func compete(t testing.TB, c *holdfast.Client, turn func() (over bool)) {
	for over := false; !over; {
		lease, err := c.Mutex("m").Acquire(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		over = turn()
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
			return
		}
	}
}

// handovers counts hand-overs, and the commands that were sent from the first to the last that counts.
type handovers struct {
	first, last   int
	sent          *atomic.Int64
	mu            sync.Mutex // a holder whose lease is lost may count beside the next
	n             int
	before, after int64
}

// turn counts a hand-over. The holder calls it.
func (h *handovers) turn() (over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.n++; h.n {
	case h.first:
		h.before = h.sent.Load()
	case h.last:
		h.after = h.sent.Load()
	}
	return h.n >= h.last
}
