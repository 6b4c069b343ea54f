package fence

import (
	"context"
	"sync"
	"time"
)

// Marks remembers of each resource the highest fence seen. *Redis, *SQL and *Memory
// are Marks.
type Marks interface {
	// Raise raises the mark of a resource to the stamp's fence, in one atomic
	// step. It returns a *StaleError, which matches ErrStale, when the mark is higher, or as
	// high and another owner's, unless the stamp is Shared. After any other error the mark may have been raised;
	// Raise may be repeated.
	Raise(ctx context.Context, s Stamp, resource string) error
}

// Memory is Marks in this process's memory, for a resource that lives there too:
// when the process ends, both are forgotten. A mark in memory for a resource that outlives
// it lets stale writers in after a restart. The zero Memory has seen nothing.
type Memory struct {
	// MaxLead is as in RedisConfig.
	MaxLead time.Duration

	mu    sync.Mutex
	marks map[string]Mark
}

// Raise is that of Marks.
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
