package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lock"
)

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
		m := (&JointLease{of: &multi{c: c, name: "a", set: a.Set}, need: 1}).joinParts([]*holdLease{part(a)})
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
	m := &JointLease{of: &multi{c: l.c, name: "a", set: l.Set}, need: 1, onLoss: func(*JointLease) { told.Add(1) }}
	m.joinParts([]*holdLease{&h.first, &other.first})
	h.endLease(&h.first, lock.ErrReleased)
	for end := time.Now().Add(time.Minute); told.Load() == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond)
	equal(t, "calls", told.Load(), 1)
}
