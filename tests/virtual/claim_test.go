package virtual

import (
	"context"
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
		if words := strings.Split(payload, " "); words[1] == "grant" { // hf2 grant TOKEN NOW CLAIM FENCE KEY
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

// stalling is a driver whose first renewal hangs until it is let go.
type stalling struct {
	drivertest.Driver
	hangs, let chan struct{} // closed when it hangs, and to let it go
	hung       atomic.Bool
}

func (d *stalling) wrap(inner drivertest.Driver) drivertest.Driver {
	d.Driver = inner
	return d
}

func (d *stalling) Run(ctx context.Context, call driver.Call) (string, error) {
	if does(call.Script, "renew") && d.hung.CompareAndSwap(false, true) {
		close(d.hangs)
		<-d.let
	}
	return d.Driver.Run(ctx, call)
}

// A waiter renews its claim at once. Release waits no longer than 50 ms for the reply, and not for the end of the
// claim.
func TestReleaseDoesNotWaitForARenewalThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		d := stalling{hangs: make(chan struct{}), let: make(chan struct{})}
		held := acquire(t, client(t, srv).Mutex("a"))
		c := configured(t, srv, holdfast.Config{CommandTimeout: time.Minute}, d.wrap)
		first, second := wait(t, c.Mutex("a")), wait(t, c.Mutex("a"))
		release(t, held)
		<-d.hangs
		begun := time.Now()
		first.served(t, 0)
		second.served(t, 0)
		if took := time.Since(begun); took > 50*time.Millisecond {
			t.Errorf("both releases took %s", took)
		}
		close(d.let)
	})
}
