package engine

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/script"
)

// kind is a kind of lock: how the server keeps it, and what may be done with it. Nothing outside the file of a kind
// asks which one it is.
type kind struct {
	name  string // in keys and notifications; "" for a mutex
	form  string // what the lock's key holds, as whatis.lua says
	flags string // of its scripts

	acquire, release, renew driver.Script

	// place returns the lock's keys.
	place func(space keys.Space, name string, s *settings) (keys.Set, error)
	// check returns what is wrong with a lock's settings.
	check func(s *settings) error
	// share returns what scripts are told of how much of the lock there is, and how much of it is wanted. It is nil if
	// one holder has it all.
	share func(s *settings) (limit, wish string)
	// batch says how many such locks are acquired at once; nil if each goes by itself.
	batch *batchForm
	// overhear listens to what other programs tell each other about the lock; nil if there is nothing to hear.
	overhear func(c *Client, l *Lock, look func()) []*notify.Listener

	exclusive  bool // a holder has the lock alone, and its fence is above all earlier ones
	joinable   bool // goroutines of one process share a hold
	byOwner    bool // an owner has the lock, in whatever process, and does not wait for itself
	hasParties bool // it matters to others how a lease ends
	reserves   bool // a renewal can reserve fences for goroutines that come later
	reasserted bool // a holder asks for it again if the server lost it
}

// batchForm is how locks of a kind are acquired together.
type batchForm struct {
	script   driver.Script
	keys     func(l *Lock) []string // besides each lock's own and its queue
	refusals map[string]bool        // replies that refuse all of them; or nil
}

// isShared reports whether several may hold the lock.
func (k *kind) isShared() bool { return k.share != nil }

// byName returns how locks of a kind that notifications call so are placed.
func byName(kind string) func(keys.Space, string, *settings) (keys.Set, error) {
	return func(space keys.Space, name string, _ *settings) (keys.Set, error) {
		set, err := space.Name(name)
		if err == nil && kind != "" {
			set = set.For(kind)
		}
		return set, err
	}
}

// shared makes a kind of lock that several may hold, of which each holder has a part.
func shared(name string, k kind) kind {
	k.name, k.form, k.place = name, name, byName(name)
	k.acquire, k.release, k.renew = script.ShareAcquire, script.ShareRelease, script.ShareRenew
	if k.share == nil {
		k.share = byWeight
	}
	return k
}

// single makes a kind of lock that is a string, which one holder has.
func single(k kind) kind {
	k.acquire, k.release, k.renew = script.Acquire, script.Release, script.Renew
	k.exclusive = true
	return k
}

// byWeight is the share of a lock of which holders have a part each.
func byWeight(s *settings) (limit, wish string) { return strconv.Itoa(s.limit), strconv.Itoa(s.weight) }

// kinds are those that notifications name.
var kinds = map[string]*kind{
	redisson.name: &redisson, reader.name: &reader, semaphore.name: &semaphore, owned.name: &owned, barrier.name: &barrier,
}

// kindNamed returns the kind that notifications call so.
func kindNamed(name string) *kind {
	if k := kinds[name]; k != nil {
		return k
	}
	return &mutex
}

// everything is the limit where none is to be reached. It is what a writer weighs, and all holders of a read-write lock
// together: more readers than there can be.
const everything = 1_000_000_000

// maxPermits bounds a semaphore, and how many parties a latch has.
const maxPermits = 1_000_000

// maxArrivals bounds a barrier, at which all parties look for themselves whenever it trips.
const maxArrivals = 10_000

// errWeight is of a lock of which nobody can have a part.
var errWeight = errors.New("Weight has a meaning for semaphores only")

// unweighted refuses a weight.
func unweighted(s *settings) error {
	if s.weight != 0 {
		return errWeight
	}
	return nil
}

// checkParties refuses what makes no sense for the parties of a latch or a barrier.
func (s *settings) checkParties(most int) error {
	switch {
	case s.weight != 1:
		return errWeight
	case s.pollInterval != 0:
		return errors.New("Poll has no meaning for a latch or a barrier: where pub/sub is forbidden, they look once a second")
	case s.reentrant:
		return errors.New("Reentrant has no meaning for a latch or a barrier: its parties are counted")
	case s.limit < 1 || s.limit > most:
		return fmt.Errorf("%d parties are not possible; 1 to %d are", s.limit, most)
	}
	return nil
}

// shareArgs are what scripts are told of the share of a lock that is wanted.
func (s *settings) shareArgs() []string {
	if !s.kind.isShared() {
		return nil
	}
	limit, wish := s.kind.share(s)
	return []string{s.kind.name, limit, wish}
}

// wish is how much of a lock that several may hold is wanted, and by whom.
func (s *settings) wish() string {
	_, wish := s.kind.share(s)
	return wish
}
