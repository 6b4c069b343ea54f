package holdfast

import "github.com/holdfast-go/holdfast/internal/option"

// An option fits the kinds of locks whose interfaces it implements: package option says how. A new option is a function, and, if it
// fits another set of kinds, a struct; a new kind is an interface, a marker, and a line in Option and in the structs.

// MutexOption is an option of a Mutex, MutexKey, RedissonMutex or OwnerMutex.
type MutexOption interface {
	change
	fitsMutex()
}

// RWMutexOption is an option of an RWMutex, or of one of its sides.
type RWMutexOption interface {
	change
	fitsRWMutex()
}

// SemaphoreOption is an option of a Semaphore, or of a number of its permits.
type SemaphoreOption interface {
	change
	fitsSemaphore()
}

// MultiOption is an option of a Multi.
type MultiOption interface {
	change
	fitsMulti()
}

// Option fits every lock, and also what packages once, latch, barrier and quorum make. A []Option cannot be passed as, for example, a
// ...MutexOption: combine them with Options, or use a []MutexOption. What fits where:
//
//	                     Mutex RWMutex Semaphore Multi once latch barrier quorum
//	TTL, NoRenew, MaxHold,
//	MaxRenewals, Identity,
//	Meta, Options          x      x        x       x    x     x      x      x
//	Wait, Poll             x      x        x       x    x                   x
//	Durability             x      x        x       x    x     x      x
//	Reentrant, MaxDepth    x      x                x
type Option interface {
	MutexOption
	RWMutexOption
	SemaphoreOption
	MultiOption
	fitsOthers
}

// WaitOption fits the locks that callers wait for in a queue, and so those of packages once and quorum.
type WaitOption interface {
	MutexOption
	RWMutexOption
	SemaphoreOption
	MultiOption
	fitsWaiting
}

// ReentrantOption fits the locks that their holder can acquire again.
type ReentrantOption interface {
	MutexOption
	RWMutexOption
	MultiOption
}

type change = interface{ option.Option }

type fitsWaiting interface {
	option.Once
	option.Quorum
}

type fitsOthers interface {
	fitsWaiting
	option.Latch
	option.Barrier
}

type (
	forMutex     struct{}
	forRWMutex   struct{}
	forSemaphore struct{}
	forMulti     struct{}
	forOnce      = option.ForOnce
	forLatch     = option.ForLatch
	forBarrier   = option.ForBarrier
	forQuorum    = option.ForQuorum
)

func (forMutex) fitsMutex()         {}
func (forRWMutex) fitsRWMutex()     {}
func (forSemaphore) fitsSemaphore() {}
func (forMulti) fitsMulti()         {}

type commonOption struct {
	option.Change
	forMutex
	forRWMutex
	forSemaphore
	forMulti
	forOnce
	forLatch
	forBarrier
	forQuorum
}

type waitOption struct {
	option.Change
	forMutex
	forRWMutex
	forSemaphore
	forMulti
	forOnce
	forQuorum
}

type reentrantOption struct {
	option.Change
	forMutex
	forRWMutex
	forMulti
}

// durable marks what fits the locks of one server, and not those of a quorum, which has several servers in place of replicas.
type durable struct {
	forMutex
	forRWMutex
	forSemaphore
	forMulti
	forOnce
	forLatch
	forBarrier
}
