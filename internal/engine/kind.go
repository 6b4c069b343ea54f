package engine

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/notify"
)

// kind is a kind of lock: how the server keeps it, and what can be done with it. Each kind is
// defined in a file of its own. Code outside that file does not ask which kind a lock is, but what
// these fields say about it.
type kind struct {
	name  string // in keys and notifications; "" for a mutex
	form  string // what the lock's key holds, in the words of whatis.lua
	flags codec.Flags

	// place returns the lock's keys.
	place func(space keys.Space, name string, s *settings) (keys.Set, error)
	// check returns an error if a lock of this kind cannot have these settings; or it is nil.
	check func(s *settings) error
	// share returns how much of the lock there is and how much of it is wanted. It is nil if one
	// holder has the whole lock.
	share func(s *settings) codec.Share
	// overhear listens to what other programs publish about the lock and calls look when there may
	// be news. It is nil if they publish nothing.
	overhear func(c *Client, l *Target, look func()) []*notify.Listener

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

// byName returns a place function for locks that are found by their names alone. kind is what
// notifications call the kind of lock.
func byName(kind string) func(keys.Space, string, *settings) (keys.Set, error) {
	return func(space keys.Space, name string, _ *settings) (keys.Set, error) {
		set, err := space.Name(name)
		if err == nil && kind != "" {
			set = set.For(kind)
		}
		return set, err
	}
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

// byWeight is the share function of locks of which each holder has a part.
func byWeight(s *settings) codec.Share {
	return codec.Share{Kind: s.kind.name, Limit: s.limit, Weight: s.weight}
}

// kinds are the kinds that notifications name, without those of locks that are kept as one value.
var kinds = map[string]*kind{
	redisson.name: &redisson, reader.name: &reader, semaphore.name: &semaphore, owned.name: &owned, barrier.name: &barrier,
}

// kindAt returns the kind that notifications call name, of a lock with these keys.
func kindAt(name string, place keys.Set) *kind {
	switch k := kinds[name]; {
	case k != nil:
		return k
	case place.IsExact():
		return &keyed
	}
	return &mutex
}

// everything is the limit of locks that have none. A writer weighs as much, and so do all holders
// of a read-write lock together: there cannot be that many readers.
const everything = 1_000_000_000

// maxPermits bounds the permits of a semaphore and the parties of a latch.
const maxPermits = 1_000_000

// maxArrivals bounds the parties of a barrier, all of which ask the server each time that it trips.
const maxArrivals = 10_000

// atMost returns the check of a latch or a barrier, which has 1 to most parties.
func atMost(most int) func(s *settings) error {
	return func(s *settings) error {
		if s.limit < 1 || s.limit > most {
			return fmt.Errorf("the number of parties is %d; it must be between 1 and %d", s.limit, most)
		}
		return nil
	}
}
