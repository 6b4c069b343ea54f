package virtual

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// Fault: An outage begins after a waiter's first request was answered, and before it is queued. The waiter outlives
// it.
func TestAWaiterOutlivesAnOutageThatBeginsAfterItsFirstTry(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		lease := acquire(t, client(t, srv).Mutex("a"))
		var left atomic.Int32 // acquires until it begins
		left.Store(1)
		w := wait(t, configured(t, srv, cfg, meddle(func(r request) (string, error) {
			if r.Script.Name == "acquire" && left.Add(-1) < 0 {
				return "", errRefused
			}
			return r.send()
		})).Mutex("a"))
		time.Sleep(time.Minute)
		left.Store(1 << 30)
		time.Sleep(time.Second) // it asks again within a second
		release(t, lease)
		w.served(t, time.Second)
	})
}
