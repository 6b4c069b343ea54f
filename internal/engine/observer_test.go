package engine

import (
	"context"
	"testing"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// Without observers nothing is allocated for them, and a hold with its lease is as large as before.
func TestNoObserverCostsNothing(t *testing.T) {
	c := &Client{}
	l := &target{c: c, set: &settings{kind: &mutex}}
	h := &hold{attempt: attempt{l: l}}
	h.lease = &holdLease{g: h}
	ctx := context.WithValue(context.Background(), observationKey{}, "not looked up")
	if n := testing.AllocsPerRun(100, func() {
		o := c.observe(ctx, l, false)
		if o.within(ctx) != ctx || c.observing(ctx) != nil {
			t.Error("there is an observation")
		}
		o.wait(1, nil)
		o.came(HandoverLocal)
		_, _ = o.end(nil, ErrHeld)
		h.observeRenewal(clock.Now(), time.Second, nil)
		h.observeLoss(nil)
		h.lease.endObserved(HandoverNone, nil)
		h.lease.flush()
		h.flush()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if size := unsafe.Sizeof(hold{}); size > 256 { // an allocation's size, with its first lease
		t.Errorf("a hold takes %d bytes", size)
	}
}
