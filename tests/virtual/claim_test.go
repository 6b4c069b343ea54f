package virtual

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// promising is a driver on whose channels somebody writes a claim of an hour into every grant.
type promising struct {
	drivertest.Driver
	grants atomic.Int64 // that were changed
}

func (d *promising) wrap(inner drivertest.Driver) drivertest.Driver {
	d.Driver = inner
	return d
}

func (d *promising) Subscribe(s driver.Subscription) (cancel func()) {
	told := s.Message
	s.Message = func(payload string) {
		if words := strings.Split(payload, " "); words[1] == "grant" { // hf1 grant TOKEN NOW CLAIM FENCE KEY
			words[4] = "3600000"
			payload = strings.Join(words, " ")
			d.grants.Add(1)
		}
		told(payload)
	}
	return d.Driver.Subscribe(s)
}

// The published grant is true except for its claim, which is far longer than the waiter asked for. The server
// ends the lock after the claim that was asked for, so the lease must end by then, too.
func TestAPublishedClaimIsNoLongerThanTheOneAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var d promising
		lock := func(c *holdfast.Client) *holdfast.Lock { return c.Mutex("a", holdfast.TTL(time.Minute)) }
		lease := acquire(t, lock(client(t, srv)))
		w := wait(t, lock(client(t, srv, d.wrap)))
		release(t, lease)
		<-w.done
		if w.err != nil {
			t.Fatal(w.err)
		}
		if d.grants.Load() != 1 {
			t.Fatalf("%d grants were published", d.grants.Load())
		}
		own, left := time.Until(w.lease.Deadline()), server(t, srv).PTTL(t.Context(), "holdfast:{a}").Val()
		if own > left || left > 10*time.Second {
			t.Errorf("the lease lasts for another %s, its lock for %s", own, left)
		}
		release(t, w.lease)
	})
}
