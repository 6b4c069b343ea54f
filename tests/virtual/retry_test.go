package virtual

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// busy is the driver of a server that runs somebody's long script.
type busy struct{ drivertest.Driver }

func (d busy) Run(_ context.Context, _ driver.Call) (string, error) {
	return "", driver.ReplyError("BUSY a script is running")
}

// A failure that may pass is retried for RetryTimeout, 3 s unless set, the last time at its end.
func TestTheLastTryComesAtTheEndOfRetryTimeout(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		l := configured(t, srv, cfg, func(d drivertest.Driver) drivertest.Driver { return busy{d} }).Mutex("a")
		for range 20 { // the pauses between the tries are random
			begun := time.Now()
			_, err := l.Acquire(t.Context())
			if d := time.Since(begun); d != 3*time.Second || !backend.HasCode(err, "BUSY") {
				t.Errorf("after %s: %v", d, err)
			}
		}
	})
}
