package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lock"
)

// The function that is given to Notify is called once when the lease ends. If the lease has already
// ended, Notify says so and does not call it. A quorum relies on that to pass a process's turn on.
func TestNotifyCallsOnceWhenAMultiLeaseEnds(t *testing.T) {
	c := open(t, &fake{holders: map[string]string{}}, nil)
	defer c.Close(t.Context())
	l := c.Mutex("a")
	part := func() *holdLease {
		lease, err := l.acquire(t.Context(), time.Time{}, false)
		must(t, err)
		return lease
	}
	settle := func(calls *atomic.Int32, want int32, when string) {
		t.Helper()
		for limit := time.Now().Add(10 * time.Second); calls.Load() < want && time.Now().Before(limit); {
			time.Sleep(time.Millisecond)
		}
		if n := calls.Load(); n != want {
			t.Fatalf("%s: called %d times, want %d", when, n, want)
		}
	}

	var calls atomic.Int32
	call := func() { calls.Add(1) }
	p := part()
	m := &JointLease{of: &several{c: c, name: "a", set: l.Set}, need: 1}
	lease := m.joinParts([]*holdLease{p})
	if !m.Notify(call) || calls.Load() != 0 {
		t.Errorf("while the lease is held: called %d times", calls.Load())
	}
	for range 2 {
		must(t, lease.Release(t.Context()))
	}
	settle(&calls, 1, "released twice")
	if m.Notify(call) {
		t.Error("Notify is true for a lease that has ended")
	}
	settle(&calls, 1, "after the lease has ended")

	for range 2000 { // Notify or the end may be first
		calls.Store(0)
		p, m := part(), &JointLease{of: &several{c: c, name: "a", set: l.Set}, need: 1}
		m.joinParts([]*holdLease{p})
		var late bool
		var wg sync.WaitGroup
		wg.Go(func() { late = !m.Notify(call) })
		wg.Go(func() {
			_ = p.Release(context.Background())
			_ = m.Err()
		})
		wg.Wait()
		if late {
			calls.Add(1) // the caller of Notify passes the turn on
		}
		settle(&calls, 1, "when the lease ended meanwhile")
		_ = m.Err()
		settle(&calls, 1, "when the lease had ended")
	}
}

// If a node grants its part while the lease is being released, that part is released too.
func TestAPartAddedDuringAReleaseIsReleased(t *testing.T) {
	c := open(t, &fake{holders: map[string]string{}}, nil)
	defer c.Close(t.Context())
	a, b := c.Mutex("a"), c.Mutex("b")
	part := func(l *Target) *holdLease {
		lease, err := l.acquire(t.Context(), time.Time{}, false)
		must(t, err)
		return lease
	}
	for range 5000 {
		m := (&JointLease{of: &several{c: c, name: "a", set: a.Set}, need: 1}).joinParts([]*holdLease{part(a)})
		late := part(b)
		var all sync.WaitGroup
		all.Go(func() {
			if !m.add(late) {
				_ = late.Release(context.Background())
			}
		})
		must(t, m.Release(t.Context()))
		all.Wait()
		for limit := time.Now().Add(time.Minute); late.Err() == nil; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("the part is still held, and renewed, although the lease has been released")
			}
		}
	}
}

// A part tells the lease of its end once: a quorum asks for another grant each time.
func TestAPartTellsOfItsEndOnce(t *testing.T) {
	l, _ := fakeMutex(t)
	h, other := granted(l, 1), granted(l, 2)
	var told atomic.Int32
	m := &JointLease{of: &several{c: l.c, name: "a", set: l.Set}, need: 1, onLoss: func(*JointLease) { told.Add(1) }}
	m.joinParts([]*holdLease{&h.first, &other.first})
	h.endLease(&h.first, lock.ErrReleased)
	for end := time.Now().Add(time.Minute); told.Load() == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond)
	equal(t, "calls", told.Load(), 1)
}
