package virtual

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// A failure that may pass is retried for RetryTimeout, 3 s unless set, the last time at its end.
func TestTheLastTryComesAtTheEndOfRetryTimeout(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		l := configured(t, srv, cfg, meddle(func(request) (string, error) {
			return "", driver.ReplyError("BUSY a script is running")
		})).Mutex("a")
		for range 20 { // the pauses between the tries are random
			begun := time.Now()
			_, err := l.Acquire(t.Context())
			if d := time.Since(begun); d != 3*time.Second || !backend.HasCode(err, "BUSY") {
				t.Errorf("after %s: %v", d, err)
			}
		}
	})
}
