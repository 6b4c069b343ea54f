package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// Mark is the highest fence that a resource has seen, with its owner. The zero Mark belongs to a resource that has seen
// none.
type Mark struct {
	Fence uint64
	Owner string
}

// refuses reports whether a resource with this mark refuses s.
func (m Mark) refuses(s Stamp) bool {
	return s.Fence < m.Fence || s.Fence == m.Fence && s.Owner != m.Owner && !s.Shared
}

// ErrStale says that a resource refused a write because it has seen a later lease. The caller's lease is over, whatever
// the caller believes. Nothing was written. A *StaleError has the fences.
var ErrStale = errors.New("holdfast: fence is stale")

// StaleError is a resource's refusal of a stamp. It matches ErrStale.
type StaleError struct {
	Resource string
	Stamp    Stamp // the refused stamp
	Mark     Mark  // the resource's mark
}

func (e *StaleError) Error() string {
	lock := ""
	if e.Stamp.Lock != "" {
		lock = fmt.Sprintf(" of lock %q", e.Stamp.Lock)
	}
	return fmt.Sprintf("holdfast: resource %q refused fence %d%s from %s: it has seen fence %d from %s",
		e.Resource, e.Stamp.Fence, lock, printable.Word(e.Stamp.Owner, maxShown), e.Mark.Fence, printable.Word(e.Mark.Owner, maxShown))
}

// maxShown is how many bytes of an owner, which is untrusted text, an error shows.
const maxShown = 128

// Is makes a StaleError match ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// ErrAhead says that a fence is ahead of the clock by more than the guard's MaxLead, so it may be made up. Nothing was
// written, and the mark is unchanged.
var ErrAhead = errors.New("holdfast: fence is ahead of the clock")

// ErrBadMark says that a resource's mark is invalid, because something else is stored in its place. Nothing was written.
var ErrBadMark = errors.New("holdfast: invalid mark")

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
	m.marks[resource] = Mark{s.Fence, s.Owner}
	return nil
}
