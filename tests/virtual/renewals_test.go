package virtual

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// renewals counts the calls that renew mutexes.
type renewals struct {
	holdfast.Driver
	calls *atomic.Int64
}

func (d renewals) Eval(ctx context.Context, s holdfast.Script, keys, args []string, urgent bool) (string, error) {
	if does(s, "renew") {
		d.calls.Add(1)
	}
	return d.Driver.Eval(ctx, s, keys, args, urgent)
}

// Leases that were acquired one after another are renewed together.
func TestRenewalsWaitForEachOther(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		var calls atomic.Int64
		c := configured(t, srv, cfg, func(d holdfast.Driver) holdfast.Driver { return renewals{d, &calls} })
		const ttl, n = 12 * time.Second, 100
		var leases []*holdfast.Lease
		for i := range n {
			lease, err := c.Mutex(fmt.Sprint(i), holdfast.TTL(ttl)).Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, lease)
			time.Sleep(ttl / 3 / n)
		}
		calls.Store(0)
		const periods = 6
		time.Sleep(periods * ttl / 3)
		// Three for each of the sixteen slots of a period, since the first of a slot do not wait.
		if got := calls.Load(); cfg.Batch == 0 && got > periods*16*3 || got < periods || cfg.Batch < 0 && got < periods*n*9/10 {
			t.Errorf("%d leases were renewed with %d calls in %d periods", n, got, periods)
		}
		for _, lease := range leases {
			if err := lease.Err(); err != nil {
				t.Errorf("%s: %v", lease.Name(), err)
			}
			release(t, lease)
		}
	})
}
