package fence

import (
	"context"
	"sync"
	"time"
)

// Marks keeps the marks of resources. *Redis, *SQL and *Memory implement it.
type Marks interface {
	// Raise raises the mark of a resource to the stamp's fence, in one atomic step. It returns a *StaleError if the mark
	// is higher, or if it is equal but of another owner and the stamp is not Shared. After any other error the mark may
	// have been raised or not, and Raise can be repeated.
	Raise(ctx context.Context, s Stamp, resource string) error
}

// Memory keeps marks in the memory of this process, for resources that live there too. If the resource outlives the
// process, stale writers are let in after a restart. The zero Memory has no marks.
type Memory struct {
	// MaxLead is as in RedisConfig.
	MaxLead time.Duration

	mu    sync.Mutex
	marks map[string]Mark
}

// Raise implements Marks.
func (m *Memory) Raise(ctx context.Context, s Stamp, resource string) error {
	if err := s.within(m.MaxLead); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if mark := m.marks[resource]; mark.refuses(s) {
		return &StaleError{Resource: resource, Stamp: s, Mark: mark}
	}
	if m.marks == nil {
		m.marks = map[string]Mark{}
	}
	m.marks[resource] = s.mark()
	return nil
}
