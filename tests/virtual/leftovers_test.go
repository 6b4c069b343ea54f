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

// far is the driver of a server that answers no renewals, and takes a while to release a lock. It counts the
// releases, and records how many are under way at once.
type far struct {
	drivertest.Driver
	flying, most, all *atomic.Int64
}

func (d far) Run(ctx context.Context, call driver.Call) (string, error) {
	switch {
	case does(call.Script, "renew"):
		<-ctx.Done()
		return "", ctx.Err()
	case call.Script.Name == "release":
		d.all.Add(1)
		now := d.flying.Add(1)
		defer d.flying.Add(-1)
		for most := d.most.Load(); now > most && !d.most.CompareAndSwap(most, now); most = d.most.Load() {
		}
		time.Sleep(100 * time.Millisecond)
	}
	return d.Driver.Run(ctx, call)
}

// If many leases are lost together, all of them are taken back, a few at a time.
func TestLostLeasesAreTakenBackFewAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var flying, most, all atomic.Int64
		c := client(t, srv, func(d drivertest.Driver) drivertest.Driver { return far{d, &flying, &most, &all} })
		const n = 200
		var leases []*holdfast.Lease
		for i := range n {
			leases = append(leases, acquire(t, c.Mutex(fmt.Sprint(i), holdfast.TTL(10*time.Second))))
		}
		time.Sleep(20 * time.Second)
		for _, lease := range leases {
			if lease.Err() == nil {
				t.Errorf("%s is not lost", lease.Name())
			}
		}
		if most.Load() > 16 || all.Load() != n {
			t.Errorf("%d releases, %d at once; want %d, and at most 16", all.Load(), most.Load(), n)
		}
	})
}
