// Package option provides the parts of which options of locks are made: what an option changes, and which kinds of locks it fits.
//
// An option fits the kinds whose interfaces it implements. Each of these interfaces has a method of its own, implemented by a marker type.
// An option embeds the markers of the kinds that it fits, so that the compiler refuses it elsewhere. Package holdfast declares the markers
// of its own kinds.
package option

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
)

// Set is the resolved options of one lock.
type Set struct {
	Given []kind.Option
	Wait  Limit
	Named bool // Owner is among the options
	Tries int  // for a job; 0: no bound
}

// Limit is one nanosecond more than the time that an acquire may wait, or 0 if there is no bound. It is a single number because every Lock
// has one.
type Limit time.Duration

// NoWait is the limit of an acquire that does not wait.
const NoWait Limit = 1

// End returns when an acquire that begins now stops waiting; zero if there is no bound.
func (l Limit) End() time.Time {
	if l == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(l - NoWait))
}

// Until returns the limit that ends at end, or no bound if end is zero.
func Until(end time.Time) Limit {
	if end.IsZero() {
		return 0
	}
	return NoWait + Limit(max(time.Until(end), 0))
}

// Option is the interface of all options.
type Option interface{ Apply(*Set) }

// Change is a function that is an option.
type Change func(*Set)

// Apply implements Option.
func (c Change) Apply(s *Set) { c(s) }

// Given returns the change that adds options of the engine.
func Given(opts ...kind.Option) Change {
	return func(s *Set) { s.Given = append(s.Given, opts...) }
}

// Refuse returns the change that makes every use of the lock fail with ErrInvalid and this reason.
func Refuse(why error) Change { return Given(kind.Refuse(why)) }

// Take applies an option.
func (s *Set) Take(one Option) {
	if one == nil {
		one = Refuse(errors.New("an option is nil"))
	}
	one.Apply(s)
}

// Resolve returns base with the options applied. It does not change base.
func Resolve[O Option](base Set, opts []O) Set {
	if len(opts) == 0 {
		return base
	}
	all := base
	all.Given = append([]kind.Option(nil), base.Given...)
	for _, o := range opts {
		all.Take(o)
	}
	return all
}

// Once is an option of a job.
type Once interface {
	Option
	FitsOnce()
}

// Latch is an option of the leases of a latch's parties.
type Latch interface {
	Option
	FitsLatch()
}

// Barrier is an option of the leases of a barrier's parties.
type Barrier interface {
	Option
	FitsBarrier()
}

// Quorum is an option of a mutex on a quorum.
type Quorum interface {
	Option
	FitsQuorum()
}

// Markers, each for one kind.
type (
	ForOnce    struct{}
	ForLatch   struct{}
	ForBarrier struct{}
	ForQuorum  struct{}
)

func (ForOnce) FitsOnce() {}

func (ForLatch) FitsLatch() {}

func (ForBarrier) FitsBarrier() {}

func (ForQuorum) FitsQuorum() {}
