package virtual

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// failing is a driver whose server cannot be reached for a while.
type failing struct {
	drivertest.Driver
	after atomic.Int32 // acquires
}

func (d *failing) Run(ctx context.Context, call driver.Call) (string, error) {
	if call.Script.Name == "acquire" && d.after.Add(-1) < 0 {
		return "", errors.New("connection refused")
	}
	return d.Driver.Run(ctx, call)
}

// Fault: An outage begins after a waiter's first request was answered, and before it is queued. The waiter outlives
// it.
func TestAWaiterOutlivesAnOutageThatBeginsAfterItsFirstTry(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		lease := acquire(t, client(t, srv).Mutex("a"))
		var way failing
		way.after.Store(1)
		w := wait(t, configured(t, srv, cfg, func(d drivertest.Driver) drivertest.Driver {
			way.Driver = d
			return &way
		}).Mutex("a"))
		time.Sleep(time.Minute)
		way.after.Store(1 << 30)
		time.Sleep(time.Second) // it asks again within a second
		release(t, lease)
		w.served(t, time.Second)
	})
}
