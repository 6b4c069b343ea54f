package backend

import (
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// Resource is what a lock protects. It accepts a write only if its fence is not below the highest that it has
// seen.
type Resource struct {
	mu    sync.Mutex
	mark  uint64
	stale int
}

// Write reports whether the write is accepted. It is refused after a later holder's write.
func (r *Resource) Write(fence uint64) (ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fence < r.mark {
		r.stale++
		return false
	}
	r.mark = fence
	return true
}

// Stale returns how many writes the resource has refused.
func (r *Resource) Stale() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stale
}

// Succeed makes the next holder of a lock write, and then the holder before it, which is late: only the next
// one's write may be accepted. Succeed reports whether both believed that they held the lock.
func (r *Resource) Succeed(tb testing.TB, before, next *holdfast.Lease) (overlap bool) {
	tb.Helper()
	overlap = before.Err() == nil && next.Err() == nil
	if next.Fence() <= before.Fence() {
		tb.Errorf("fence %d follows %d", next.Fence(), before.Fence())
	}
	if !r.Write(next.Fence()) {
		tb.Errorf("the resource refuses the holder with fence %d", next.Fence())
	}
	if r.Write(before.Fence()) {
		tb.Errorf("the resource takes a write with fence %d after one with %d", before.Fence(), next.Fence())
	}
	return overlap
}
