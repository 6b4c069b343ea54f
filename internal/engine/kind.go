package engine

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// kind is a kind of lock: how the server keeps it, and what can be done with it. Code elsewhere does not ask which kind a lock is, but
// what these fields say about it.
type kind struct {
	name  string // in keys and notifications; "" for a mutex
	form  string // what the lock's key holds, in the words of whatis.lua
	what  string // the same in words for people, for a key that was used as another kind
	flags codec.Flags

	// place returns the lock's keys.
	place func(space keys.Space, name string, s *settings) (keys.Set, error)
	// check returns an error if a lock of this kind cannot have these settings; or it is nil.
	check func(s *settings) error
	// share returns how much of the lock there is and how much of it is wanted. It is nil if one holder has the whole lock.
	share func(s *settings) codec.Share
	// announced returns the channel on which other programs announce that the lock is free. It is nil if they announce nothing.
	announced func(keys.Set) string

	nesting nesting // what an acquire does within a lease of the same lock

	exclusive  bool // one holder at a time, whose fence is above all earlier ones
	joinable   bool // goroutines of one process share a hold
	byOwner    bool // an owner has the lock, from any process, and does not wait for itself
	hasParties bool // how a lease ends matters to others
	native     bool // the server's own commands can acquire and release it
	reserves   bool // a renewal can reserve fences for goroutines that come later
	reasserted bool // a holder claims the lock again if the server has lost it
	carried    bool // a lease can be detached, and adopted by another process
	counts     bool // the server counts the parties down, from the limit to zero
	isVote     bool // a hold is a vote for a lock of a quorum
}

// isShared reports whether the lock can have several holders.
func (k *kind) isShared() bool { return k.share != nil }

// nesting says what an acquire of a lock does within a lease of the same lock.
type nesting byte

const (
	waitsForItself nesting = iota // waits for that lease, or would if others were queued
	waitsForRoom                  // waits for that lease if what is left of the lock is too little
	neverWaits
)

// The kinds of locks.
var (
	// mutex has one holder at a time.
	mutex = single(kind{form: codec.HoldsMutex, place: byName(""), native: true, reserves: true, reasserted: true, carried: true,
		what: "a lock with one holder at a time, such as one of Mutex, Multi, Once or Election"})
	// keyed is a mutex under a key of the user's choice, shared with programs that use SET key token NX PX ttl. If it has disappeared,
	// its holder does not claim it again: such a program may have held it meanwhile, and nothing would show it.
	keyed = single(kind{form: codec.HoldsMutex, flags: codec.Shared, carried: true, place: byKey})
	// redisson is a mutex that is kept as Redisson keeps its RLock, in a hash.
	redisson = single(kind{name: "redisson", form: codec.HoldsRedisson, flags: codec.Redisson, place: byRedissonName, announced: keys.RedissonChannel,
		what: "a lock in the format of Redisson's RLock"})
	// nodeMutex is a mutex on one node of a quorum: a server that lost its data, or may have, grants and extends nothing.
	nodeMutex = single(kind{form: codec.HoldsMutex, flags: codec.Node, place: byName(""), isVote: true, check: checkVote})
	// owned is a mutex that has an owner, who can acquire it again from any process. Each of the owner's leases has a part of it.
	owned = shared(codec.Owned, kind{byOwner: true, share: byDepth, check: func(s *settings) error { return keys.Check("owner", s.owner) },
		what: "an owner's lock (OwnerMutex)"})
	// reader and writer are the sides of a read-write lock. A writer wants all of it. The fence of readers is that of the writer before
	// them, and the same for all.
	reader = shared(codec.ReadWrite, kind{joinable: true, what: "a read-write lock"})
	writer = shared(codec.ReadWrite, kind{exclusive: true})
	// semaphore is a lock of which each holder has as many permits as it asked for.
	semaphore = shared(codec.Semaphore, kind{nesting: waitsForRoom, check: checkPermits, what: "a semaphore"})
	// latch is the lock whose holders are the registered parties of a latch. The server keeps a count beside them.
	latch = shared(codec.Latch, kind{nesting: neverWaits, hasParties: true, counts: true, check: atMost(maxPermits), what: "a latch"})
	// barrier is the lock whose holders are the parties of a barrier.
	barrier = shared(codec.Barrier, kind{nesting: waitsForRoom, hasParties: true, check: atMost(maxArrivals), what: "a barrier"})
)

// all has a kind for each form of a key. In their queues, exactKinds can be found at exact keys, and namedKinds under names, besides
// a mutex.
var (
	all        = []*kind{&mutex, &redisson, &reader, &semaphore, &owned, &barrier, &latch}
	exactKinds = []*kind{&redisson}
	namedKinds = []*kind{&reader, &semaphore, &owned, &barrier, &redisson}
)

// kindOf returns the kind whose locks' keys hold that form; nil if there is none.
func kindOf(form string) *kind {
	for _, k := range all {
		if k.form == form {
			return k
		}
	}
	return nil
}

// kindAt returns the kind that notifications call name, of a lock with these keys.
func kindAt(name string, place keys.Set) *kind {
	for _, k := range namedKinds {
		if k.name == name {
			return k
		}
	}
	if place.IsExact() {
		return &keyed
	}
	return &mutex
}

// shared completes a kind of lock that can have several holders, each with a part of it.
func shared(name string, k kind) kind {
	k.name, k.form, k.place = name, name, byName(name)
	if k.share == nil {
		k.share = byWeight
	}
	return k
}

// single completes a kind of lock that is kept as one value and has one holder.
func single(k kind) kind {
	k.exclusive = true
	return k
}

// byName returns a place function for locks that are found by their names alone. kind is what notifications call the kind of lock.
func byName(kind string) func(keys.Space, string, *settings) (keys.Set, error) {
	return func(space keys.Space, name string, _ *settings) (keys.Set, error) {
		set, err := space.Name(name)
		if err == nil && kind != "" {
			set = set.For(kind)
		}
		return set, err
	}
}

func byKey(space keys.Space, _ string, s *settings) (keys.Set, error) { return space.Exact(s.key) }

func byRedissonName(space keys.Space, _ string, s *settings) (keys.Set, error) {
	set, err := space.Redisson(s.key)
	if err == nil {
		set = set.For("redisson")
	}
	return set, err
}

// byWeight is the share function of locks of which each holder has a part.
func byWeight(s *settings) codec.Share {
	return codec.Share{Kind: s.kind.name, Limit: s.limit, Weight: s.weight}
}

// byDepth is the share function of an owner's locks.
func byDepth(s *settings) codec.Share {
	share := byWeight(s)
	share.Owner = s.owner
	if s.maxDepth > 0 {
		share.Limit = s.maxDepth
	}
	return share
}

// everything is the limit of locks that have none. A writer weighs as much, and so do all holders of a read-write lock together:
// there cannot be that many readers.
const everything = 1_000_000_000

// maxPermits bounds the permits of a semaphore and the parties of a latch.
const maxPermits = 1_000_000

// maxArrivals bounds the parties of a barrier, all of which ask the server each time that it trips.
const maxArrivals = 10_000

func checkPermits(s *settings) error {
	switch {
	case s.limit < 1 || s.limit > maxPermits:
		return fmt.Errorf("the number of permits is %d; it must be between 1 and %d", s.limit, maxPermits)
	case s.weight < 1 || s.weight > maxPermits:
		return fmt.Errorf("%d permits at once are not possible; between 1 and %d are", s.weight, maxPermits)
	}
	return nil
}

func checkVote(s *settings) error {
	if s.reentrant || s.replicas != 0 || s.fsync {
		return fmt.Errorf("Reentrant and Durability are not for locks of a quorum")
	}
	return nil
}

// atMost returns the check of a latch or a barrier, which has 1 to most parties.
func atMost(most int) func(s *settings) error {
	return func(s *settings) error {
		if s.limit < 1 || s.limit > most {
			return fmt.Errorf("the number of parties is %d; it must be between 1 and %d", s.limit, most)
		}
		return nil
	}
}
