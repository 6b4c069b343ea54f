package engine

import (
	"context"
	"testing"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// Observing a free acquire and its release takes one allocation: the observation.
func TestAnObservationIsOneAllocation(t *testing.T) {
	told := 0
	c := &Client{}
	c.mint.init()
	c.Config.Observer = &lock.Observer{
		AcquireStart: func(ctx context.Context, _ lock.AcquireEvent) context.Context { return ctx },
		AcquireEnd:   func(context.Context, lock.AcquireEvent) { told++ },
		Released:     func(context.Context, lock.LeaseEvent) { told++ },
	}
	l := &Target{c: c, Lock: lock.Lock{Of: &c.Keyspace, Set: &kind.Settings{Terms: &kind.Terms{Kind: &kind.Mutex}}}}
	h := &hold{attempt: attempt{l: l, head: c.mint.head()}}
	ctx := t.Context()
	const cycles = 100
	leases := make([]holdLease, cycles+1) // AllocsPerRun makes one more run
	n := testing.AllocsPerRun(cycles, func() {
		lease := &leases[told/2]
		lease.g, h.lease = h, lease
		c.Tasks.Begin()
		o, within := c.observe(ctx, l, false)
		equal(t, "the observation", c.observing(within), o)
		_, _ = o.end(lease, nil)
		lease.endObserved(lock.HandoverNone, nil)
		lease.flush()
		c.Tasks.End()
	})
	if n != 1 || told != 2*len(leases) {
		t.Errorf("%v allocations, %d events of %d leases", n, told, len(leases))
	}
	if size := unsafe.Sizeof(observation{}); size > 256 { // a size class of Go's allocator
		t.Errorf("an observation takes %d bytes", size)
	}
}

// Observers get the values of a caller's context, but not its end.
func TestAnObserversContextNeverEnds(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Hour)
	cancel()
	var told context.Context
	c := &Client{}
	c.Config.Observer = &lock.Observer{AcquireEnd: func(ctx context.Context, _ lock.AcquireEvent) { told = ctx }}
	o, _ := c.observe(ctx, &Target{c: c, Lock: lock.Lock{Of: &c.Keyspace, Set: &kind.Settings{Terms: &kind.Terms{Kind: &kind.Mutex}}}}, false)
	_, _ = o.end(nil, ctx.Err())
	if _, ends := told.Deadline(); ends || told.Err() != nil || told.Done() != nil || told.Value(key{}) != "value" {
		t.Errorf("%v", told)
	}
	child, end := context.WithCancel(told)
	defer end()
	equal(t, "the end of a context that is made of it", child.Err(), nil)
}
