package faults

import (
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// resource is what a lock protects. It takes a write only with a fence that is not
// below the highest that it has seen.
type resource struct {
	mu   sync.Mutex
	mark uint64
}

func (r *resource) write(fence uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fence < r.mark {
		return false
	}
	r.mark = fence
	return true
}

// succeed has the next holder of a lock write, and then the one before it, who is
// late: only the next one's write may be taken. It reports whether both believed to
// hold the lock.
func (r *resource) succeed(t *testing.T, before, next *holdfast.Lease) (overlap bool) {
	t.Helper()
	overlap = before.Err() == nil && next.Err() == nil
	if next.Token() <= before.Token() {
		t.Errorf("fence %d follows %d", next.Token(), before.Token())
	}
	if !r.write(next.Token()) {
		t.Errorf("the resource refuses the holder with fence %d", next.Token())
	}
	if r.write(before.Token()) {
		t.Errorf("the resource takes a write with fence %d after one with %d", before.Token(), next.Token())
	}
	return overlap
}
