package fence

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// ErrStale says that a resource refused a write because somebody with a later lease
// has been there: the caller's lease is over, whatever it believes. Nothing was
// written. errors.As with *StaleError tells which fences.
var ErrStale = errors.New("holdfast: fence is stale")

// StaleError is the refusal of a stamp. It matches ErrStale.
type StaleError struct {
	Resource string
	Stamp    Stamp // what was offered
	Mark     Mark  // what the resource had seen
}

func (e *StaleError) Error() string {
	lock := ""
	if e.Stamp.Lock != "" {
		lock = fmt.Sprintf(" of lock %q", e.Stamp.Lock)
	}
	return fmt.Sprintf("holdfast: %q refuses fence %d%s, shown by %s: it has seen %d of %s",
		e.Resource, e.Stamp.Fence, lock, printable.Word(e.Stamp.Owner, maxShown), e.Mark.Fence, printable.Word(e.Mark.Owner, maxShown))
}

// maxShown is how much of an owner, which others wrote, an error shows, in bytes.
const maxShown = 128

// Is makes a StaleError match ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// ErrAhead says that a fence leads the clock by more than the guard's MaxLead: somebody may have made it up.
// Nothing was written, and the mark is where it was.
var ErrAhead = errors.New("holdfast: fence is ahead of the clock")

// ErrBadMark says that what is kept where a resource's mark should be is no mark.
// Nothing was written.
var ErrBadMark = errors.New("holdfast: no mark where one should be")
