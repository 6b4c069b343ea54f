package virtual

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// busy is the driver of a server that runs somebody's long script.
type busy struct{ holdfast.Driver }

func (d busy) Eval(context.Context, holdfast.Script, []string, []string, bool) (string, error) {
	return "", holdfast.ReplyError("BUSY a script is running")
}

// What may pass is tried again for RetryTimeout, 3 s unless set: the last time at its end.
func TestTheLastTryComesAtTheEndOfRetryTimeout(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		l := configured(t, srv, cfg, func(d holdfast.Driver) holdfast.Driver { return busy{d} }).Mutex("a")
		for range 20 { // the pauses between the tries are random
			begun := time.Now()
			_, err := l.Acquire(t.Context())
			if d := time.Since(begun); d != 3*time.Second || !errors.Is(err, holdfast.ErrBusy) {
				t.Errorf("after %s: %v", d, err)
			}
		}
	})
}
