package backend

import (
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// Resource is what a lock protects. It takes a write only with a fence that is not
// below the highest that it has seen.
type Resource struct {
	mu    sync.Mutex
	mark  uint64
	stale int
}

// Write is refused when a later holder has been here.
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

// Mark is the highest fence that it has seen.
func (r *Resource) Mark() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mark
}

// Stale is how many writes it has refused.
func (r *Resource) Stale() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stale
}

// Succeed has the next holder of a lock write, and then the one before it, who is
// late: only the next one's write may be taken. It reports whether both believed to
// hold the lock.
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
