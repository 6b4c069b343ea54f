package fence

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/printable"
)

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
