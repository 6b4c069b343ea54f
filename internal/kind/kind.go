// Package kind defines the kinds of locks, and what a lock's options make of it. It knows keys, and what requests carry of a kind, but no
// server, client or lease.
package kind

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// Kind is a kind of lock: how the server keeps it, and what can be done with it. Code elsewhere asks these fields how a lock behaves, not
// which kind it is.
type Kind struct {
	Name  string // in keys and messages; "" for a mutex
	Form  string // what the lock's key holds, as status.lua reports it
	What  string // the same for people, in errors about a key that was used as another kind
	Flags codec.Flags

	// Place returns the lock's keys.
	Place func(space keys.Space, name string, s *Settings) (keys.Set, error)
	// check returns an error if a lock of this kind cannot have these settings. It may be nil.
	check func(s *Settings) error
	// Share returns how much of the lock there is, and how much of it is wanted. It is nil unless IsShared.
	Share func(s *Settings) codec.Share
	// Announced returns the channel on which other programs announce that the lock is free. It is nil if no other program does.
	Announced func(keys.Set) string

	Nesting nesting // what an acquire does within a lease of the same lock

	IsShared   bool // it can have several holders
	exclusive  bool // one holder at a time, whose fence is above all earlier ones
	Joinable   bool // goroutines of one process share a hold
	ByOwner    bool // an owner has the lock, from any process, and never waits for itself
	HasParties bool // holders are parties: how a lease ends matters to others
	Native     bool // the server's own commands can acquire and release it
	Reserves   bool // a renewal can reserve fences for goroutines that acquire later
	Reasserted bool // a holder asserts the lock again if the server has lost it
	carried    bool // a lease can be detached, and adopted by another process
	Counts     bool // the server counts the parties down, from the limit to zero
	IsVote     bool // a hold is a vote for a lock of a quorum
}

// nesting says what an acquire does within a lease of the same lock.
type nesting byte

const (
	WaitsForItself nesting = iota // waits for that lease, or would if others were queued
	WaitsForRoom                  // waits for that lease if too little of the lock is left
	neverWaits
)

// The kinds of locks.
var (
	// Mutex has one holder at a time.
	Mutex = single(Kind{Form: codec.HoldsMutex, Place: byName(""), Native: true, Reserves: true, Reasserted: true, carried: true,
		What: "a lock with one holder at a time, such as one of Mutex, Multi, Once or Election"})
	// Keyed is a mutex under a key of the user's choice, shared with programs that use SET key token NX PX ttl. Its holder does not assert
	// it again once it is gone: such a program may have held it meanwhile, without a trace.
	Keyed = single(Kind{Form: codec.HoldsMutex, Flags: codec.Shared, carried: true, Place: byKey})
	// RLock is a mutex in the format of Redisson's RLock, a hash.
	RLock = single(Kind{Name: "redisson", Form: codec.HoldsRedisson, Flags: codec.Redisson, Place: byRedissonName, Announced: keys.RedissonChannel,
		What: "a lock in the format of Redisson's RLock"})
	// nodeMutex is a mutex on one node of a quorum. A node that lost its data, or may have, grants and extends nothing.
	nodeMutex = single(Kind{Form: codec.HoldsMutex, Flags: codec.Node, Place: byName(""), IsVote: true, check: checkVote})
	// Owned is a mutex that has an owner, who can acquire it again from any process. Each of the owner's leases is a share of it.
	Owned = shared(codec.Owned, Kind{ByOwner: true, Share: byDepth, check: func(s *Settings) error { return keys.Check("owner", s.Owner) },
		What: "an owner's lock (OwnerMutex)"})
	// Reader and Writer are the sides of a read-write lock. A writer takes all of it. Readers that hold it together have the same fence,
	// that of the writer before them.
	Reader = shared(codec.ReadWrite, Kind{Joinable: true, What: "a read-write lock"})
	Writer = shared(codec.ReadWrite, Kind{exclusive: true})
	// Semaphore is a lock whose holders each have as many permits as they asked for.
	Semaphore = shared(codec.Semaphore, Kind{Nesting: WaitsForRoom, check: checkPermits, What: "a semaphore"})
	// Latch is the lock whose holders are the registered parties of a latch. The server keeps the latch's count beside them.
	Latch = shared(codec.Latch, Kind{Nesting: neverWaits, HasParties: true, Counts: true, check: atMost(MaxPermits), What: "a latch"})
	// Barrier is the lock whose holders are the parties of a barrier.
	Barrier = shared(codec.Barrier, Kind{Nesting: WaitsForRoom, HasParties: true, check: atMost(maxArrivals), What: "a barrier"})
)

// All has one kind for each form that a lock's key can have. ExactKinds are the kinds besides a mutex whose queues can be found at exact
// keys, and NamedKinds those found under names.
var (
	All        = []*Kind{&Mutex, &RLock, &Reader, &Semaphore, &Owned, &Barrier, &Latch}
	ExactKinds = []*Kind{&RLock}
	NamedKinds = []*Kind{&Reader, &Semaphore, &Owned, &Barrier, &RLock}
)

// ByForm returns the kind of the locks whose keys hold that form, or nil.
func ByForm(form string) *Kind {
	for _, k := range All {
		if k.Form == form {
			return k
		}
	}
	return nil
}

// At returns the kind that a message calls name, for a lock with these keys.
func At(name string, place keys.Set) *Kind {
	for _, k := range NamedKinds {
		if k.Name == name {
			return k
		}
	}
	if place.IsExact() {
		return &Keyed
	}
	return &Mutex
}

// shared completes a kind of lock that can have several holders, each with a share of it.
func shared(name string, k Kind) Kind {
	k.Name, k.Form, k.Place, k.IsShared = name, name, byName(name), true
	if k.Share == nil {
		k.Share = byWeight
	}
	return k
}

// single completes a kind of lock that has one holder and is kept as one value.
func single(k Kind) Kind {
	k.exclusive = true
	return k
}

// byName returns a Place function for locks that their names alone identify. kind is what messages call the kind.
func byName(kind string) func(keys.Space, string, *Settings) (keys.Set, error) {
	return func(space keys.Space, name string, _ *Settings) (keys.Set, error) {
		set, err := space.Name(name)
		if err == nil && kind != "" {
			set = set.For(kind)
		}
		return set, err
	}
}

func byKey(space keys.Space, _ string, s *Settings) (keys.Set, error) { return space.Exact(s.Key) }

func byRedissonName(space keys.Space, _ string, s *Settings) (keys.Set, error) {
	set, err := space.Redisson(s.Key)
	if err == nil {
		set = set.For("redisson")
	}
	return set, err
}

// byWeight is the Share function of most locks that can have several holders.
func byWeight(s *Settings) codec.Share {
	return codec.Share{Kind: s.Kind.Name, Limit: s.Limit, Weight: s.Weight}
}

// byDepth is the Share function of an owner's locks.
func byDepth(s *Settings) codec.Share {
	share := byWeight(s)
	share.Owner = s.Owner
	if s.MaxDepth > 0 {
		share.Limit = s.MaxDepth
	}
	return share
}

// Everything is the limit of locks that have none. It is also the weight of a writer and the limit of a read-write lock, which never has
// that many readers.
const Everything = 1_000_000_000

// MaxPermits bounds the permits of a semaphore and the parties of a latch.
const MaxPermits = 1_000_000

// maxArrivals bounds the parties of a barrier, all of which ask the server whenever the barrier trips.
const maxArrivals = 10_000

func checkPermits(s *Settings) error {
	switch {
	case s.Limit < 1 || s.Limit > MaxPermits:
		return fmt.Errorf("the number of permits is %d; it must be between 1 and %d", s.Limit, MaxPermits)
	case s.Weight < 1 || s.Weight > MaxPermits:
		return fmt.Errorf("%d permits at once are not possible; between 1 and %d are", s.Weight, MaxPermits)
	}
	return nil
}

func checkVote(s *Settings) error {
	if s.Reentrant || s.Durable {
		return errors.New("Reentrant and Durability are not for locks of a quorum")
	}
	return nil
}

// atMost returns the check for a latch or a barrier, which has 1 to most parties.
func atMost(most int) func(s *Settings) error {
	return func(s *Settings) error {
		if s.Limit < 1 || s.Limit > most {
			return fmt.Errorf("the number of parties is %d; it must be between 1 and %d", s.Limit, most)
		}
		return nil
	}
}
