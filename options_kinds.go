package holdfast

// An option fits the kinds of locks whose interfaces it has. An interface has a method of its own, fitsX, which a marker
// type implements: an option embeds the markers of the kinds that it fits, so that the compiler refuses it elsewhere. A new
// option is a function, and, if it fits another set of kinds, a struct; a new kind is an interface, a marker, and a line in
// Option and in the structs.

// MutexOption is an option of a Mutex, MutexKey, RedissonMutex or OwnerMutex.
type MutexOption interface {
	option
	fitsMutex()
}

// RWMutexOption is an option of an RWMutex, or of one of its sides.
type RWMutexOption interface {
	option
	fitsRWMutex()
}

// SemaphoreOption is an option of a Semaphore, or of a number of its permits.
type SemaphoreOption interface {
	option
	fitsSemaphore()
}

// MultiOption is an option of a Multi.
type MultiOption interface {
	option
	fitsMulti()
}

// OnceOption is an option of a Once.
type OnceOption interface {
	option
	fitsOnce()
}

// ElectionOption is an option of an Election: of its leader's lease.
type ElectionOption interface {
	option
	fitsElection()
}

// LatchOption is an option of a Latch: of its parties' leases.
type LatchOption interface {
	option
	fitsLatch()
}

// BarrierOption is an option of a Barrier: of its parties' leases.
type BarrierOption interface {
	option
	fitsBarrier()
}

// QuorumOption is an option of a Quorum's Mutex.
type QuorumOption interface {
	option
	fitsQuorum()
}

// Option fits every lock. A []Option cannot be passed as, for example, a ...MutexOption: combine them with Options, or use
// a []MutexOption.
type Option interface {
	MutexOption
	RWMutexOption
	SemaphoreOption
	MultiOption
	OnceOption
	ElectionOption
	LatchOption
	BarrierOption
	QuorumOption
}

// WaitOption fits the locks that callers wait for. Elections, latches and barriers wait for as long as their context.
type WaitOption interface {
	MutexOption
	RWMutexOption
	SemaphoreOption
	MultiOption
	OnceOption
	QuorumOption
}

// ReentrantOption fits the locks that their holder can acquire again.
type ReentrantOption interface {
	MutexOption
	RWMutexOption
	MultiOption
}

// DurableOption fits the locks of one server, and not those of a Quorum, which has several servers in place of replicas.
type DurableOption interface {
	MutexOption
	RWMutexOption
	SemaphoreOption
	MultiOption
	OnceOption
	ElectionOption
	LatchOption
	BarrierOption
}

// PollOption fits the locks that are waited for in a queue.
type PollOption interface {
	MutexOption
	RWMutexOption
	SemaphoreOption
	MultiOption
	OnceOption
	ElectionOption
	QuorumOption
}

type (
	forMutex     struct{}
	forRWMutex   struct{}
	forSemaphore struct{}
	forMulti     struct{}
	forOnce      struct{}
	forElection  struct{}
	forLatch     struct{}
	forBarrier   struct{}
	forQuorum    struct{}
)

func (forMutex) fitsMutex()         {}
func (forRWMutex) fitsRWMutex()     {}
func (forSemaphore) fitsSemaphore() {}
func (forMulti) fitsMulti()         {}
func (forOnce) fitsOnce()           {}
func (forElection) fitsElection()   {}
func (forLatch) fitsLatch()         {}
func (forBarrier) fitsBarrier()     {}
func (forQuorum) fitsQuorum()       {}

type commonOption struct {
	change
	forMutex
	forRWMutex
	forSemaphore
	forMulti
	forOnce
	forElection
	forLatch
	forBarrier
	forQuorum
}

type waitOption struct {
	change
	forMutex
	forRWMutex
	forSemaphore
	forMulti
	forOnce
	forQuorum
}

type reentrantOption struct {
	change
	forMutex
	forRWMutex
	forMulti
}

type triesOption struct {
	change
	forOnce
}

type durableOption struct {
	change
	forMutex
	forRWMutex
	forSemaphore
	forMulti
	forOnce
	forElection
	forLatch
	forBarrier
}

type pollOption struct {
	change
	forMutex
	forRWMutex
	forSemaphore
	forMulti
	forOnce
	forElection
	forQuorum
}
