// Package option has what the options of locks are made of: what they change, and which kinds of locks they fit.
//
// An option fits the kinds whose interfaces it implements. Each interface has a method of its own, which a marker type implements: an
// option embeds the markers of the kinds that it fits, so that the compiler refuses it elsewhere. The markers of the kinds in package
// holdfast are there.
package option

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
)

// Set is the options of one lock.
type Set struct {
	Given []kind.Option
	Wait  Limit
	Named bool // by Owner
	Tries int  // of a job, 0: no bound
}

// Limit is one nanosecond more than an acquire may wait for its lock, or 0 if there is no bound. It is a single number because every
// Lock holds one.
type Limit time.Duration

// NoWait is the limit of an acquire that does not wait.
const NoWait Limit = 1

// End is when an acquire that begins now waits no longer; zero if that is not bounded.
func (l Limit) End() time.Time {
	if l == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(l - NoWait))
}

// Until returns the limit that ends at end; no bound if end is zero.
func Until(end time.Time) Limit {
	if end.IsZero() {
		return 0
	}
	return NoWait + Limit(max(time.Until(end), 0))
}

// Option is what all options have in common.
type Option interface{ Apply(*Set) }

// Change is what an option does.
type Change func(*Set)

// Apply implements Option.
func (c Change) Apply(s *Set) { c(s) }

// Given is the change that options of the engine make.
func Given(opts ...kind.Option) Change {
	return func(s *Set) { s.Given = append(s.Given, opts...) }
}

// Refuse is the change that makes every use of the lock fail with ErrInvalid, for that reason.
func Refuse(why error) Change { return Given(kind.Refuse(why)) }

// Take applies an option.
func (s *Set) Take(one Option) {
	if one == nil {
		one = Refuse(errors.New("an option is nil"))
	}
	one.Apply(s)
}

// Resolve returns the options of a lock, on top of those that it would have anyway.
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

// The markers of those kinds.
type (
	ForOnce    struct{}
	ForLatch   struct{}
	ForBarrier struct{}
	ForQuorum  struct{}
)

// FitsOnce marks an option of a job.
func (ForOnce) FitsOnce() {}

// FitsLatch marks an option of a latch.
func (ForLatch) FitsLatch() {}

// FitsBarrier marks an option of a barrier.
func (ForBarrier) FitsBarrier() {}

// FitsQuorum marks an option of a quorum's mutex.
func (ForQuorum) FitsQuorum() {}
