package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Whoever is told of the end of a lease that is made of others is told once: not at all by notify
// if it came when the lease was over, which is for its caller to know. A process's turn in a
// quorum is passed on by it.
func TestTheEndOfABundleIsToldOnce(t *testing.T) {
	c, err := New(&fake{holders: map[string]string{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	l := c.Mutex("a")
	part := func() *Lease {
		lease, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	settle := func(told *atomic.Int32, want int32, when string) {
		t.Helper()
		for limit := time.Now().Add(10 * time.Second); told.Load() < want && time.Now().Before(limit); {
			time.Sleep(time.Millisecond)
		}
		if n := told.Load(); n != want {
			t.Fatalf("%s: told %d times, not %d", when, n, want)
		}
	}

	var told atomic.Int32
	tell := func() { told.Add(1) }
	p := part()
	m := &multiLease{l: l, need: 1}
	lease := m.lease(t.Context(), []*Lease{p})
	if !m.notify(tell) || told.Load() != 0 {
		t.Errorf("of a lease that is held: told %d times", told.Load())
	}
	for range 2 {
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	settle(&told, 1, "released twice")
	if m.notify(tell) {
		t.Error("notify of a lease that is over is true")
	}
	settle(&told, 1, "when it was over")

	for range 2000 { // either may be first
		told.Store(0)
		p, m := part(), &multiLease{l: l, need: 1}
		m.lease(t.Context(), []*Lease{p})
		var late bool
		var wg sync.WaitGroup
		wg.Go(func() { late = !m.notify(tell) })
		wg.Go(func() {
			_ = p.Release(context.Background())
			_ = m.err()
		})
		wg.Wait()
		if late {
			told.Add(1) // its caller passes the turn on
		}
		settle(&told, 1, "when it ended meanwhile")
		_ = m.err()
		settle(&told, 1, "when it had ended")
	}
}
