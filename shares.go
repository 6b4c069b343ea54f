package holdfast

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// kind is how a lock is kept on the server.
type kind struct {
	name                    string // in the queue's key, and in notifications; "" for a mutex
	many                    bool   // several may hold it
	acquire, release, renew Script
}

var (
	mutex     = kind{"", false, script.Acquire, script.Release, script.Renew}
	redisson  = kind{"redisson", false, script.Acquire, script.Release, script.Renew}
	readWrite = shared("rw")
	semaphore = shared("sem")
	owned     = shared("own")
	latch     = shared("latch")
	barrier   = shared("bar")
)

// shared is a kind of lock that several may hold at once.
func shared(name string) kind {
	return kind{name, true, script.ShareAcquire, script.ShareRelease, script.ShareRenew}
}

// kindNamed returns the kind that notifications call so.
func kindNamed(name string) *kind {
	switch name {
	case redisson.name:
		return &redisson
	case readWrite.name:
		return &readWrite
	case semaphore.name:
		return &semaphore
	case owned.name:
		return &owned
	case barrier.name:
		return &barrier
	}
	return &mutex
}

// everything is the limit where none is to be reached. It is what a writer weighs, and all holders of a read-write lock together: more
// readers than there can be.
const everything = 1_000_000_000

// maxPermits bounds a semaphore, and how many parties a latch has.
const maxPermits = 1_000_000

// maxArrivals bounds a barrier, at which all parties look for themselves whenever it trips.
const maxArrivals = 10_000

// isShared reports whether several may hold the lock.
func (s *settings) isShared() bool { return s.kind.many }

// hasParties reports whether who has a lease of these settings is the party of a latch or a
// barrier.
func (s *settings) hasParties() bool { return s.kind == &latch || s.kind == &barrier }

// reads reports whether leases of these settings are readers'.
func (s *settings) reads() bool { return s.kind == &readWrite && s.weight < everything }

// isExclusive reports whether a holder with these settings is the only one.
func (s *settings) isExclusive() bool {
	return !s.isShared() || s.kind == &readWrite && s.weight == everything
}

// share is what scripts are told of the share of a lock that is wanted.
func (s *settings) share() []string {
	switch {
	case !s.isShared():
		return nil
	case s.kind == &owned && s.maxDepth > 0:
		return []string{s.kind.name, strconv.Itoa(s.maxDepth), s.wish()}
	}
	return []string{s.kind.name, strconv.Itoa(s.limit), s.wish()}
}

// wish is how much of the lock is wanted, and of an owned lock by whom.
func (s *settings) wish() string {
	if s.kind == &owned {
		return strconv.Itoa(s.weight) + "\n" + s.owner
	}
	return strconv.Itoa(s.weight)
}

// parseHolders reads what follows in a "holders" reply.
func (l *Lock) parseHolders(r *wire.Reply) ([]Holder, error) {
	var waiters, used, limit int64
	head, lines, _ := strings.Cut(r.Rest(), "\n")
	numbers := wire.Fields(head)
	if numbers.Ints(&waiters, &used, &limit) != nil {
		return nil, l.malformed("inspect")
	}
	var all []Holder
	for line := range strings.SplitSeq(lines, "\n") {
		if line == "" {
			continue
		}
		var pttl, weight int64
		fields := wire.Fields(line)
		if fields.Ints(&pttl, &weight) != nil {
			return nil, l.malformed("inspect")
		}
		h := l.holder(duration(pttl), int(waiters), fields.Rest())
		h.Weight = int(weight)
		all = append(all, h)
	}
	return all, nil
}
