package codec

import (
	"strconv"

	"github.com/holdfast-go/holdfast/internal/script"
)

// The kinds of locks that can have several holders, as scripts and messages name them.
const (
	ReadWrite = "rw"
	Semaphore = "sem"
	Owned     = "own"
	Latch     = "latch"
	Barrier   = "bar"
)

// Share is the part of a lock that a request asks for.
type Share struct {
	Kind   string
	Limit  int // of the sum of all weights; for an owned lock, of its owner's holds
	Weight int
	Owner  string // for an owned lock
}

// wanted returns how much of the lock is wanted and, for an owned lock, by whom.
func (s *Share) wanted() string {
	if s.Kind == Owned {
		return strconv.Itoa(s.Weight) + "\n" + s.Owner
	}
	return strconv.Itoa(s.Weight)
}

// Weigh changes the weight of a hold: share_weigh.lua. granted is the fence of the grant; leased is later if the grant was passed on within the
// process. Held says that nothing has changed.
func Weigh(l Lock, token string, weight int, granted, leased uint64) Request[Reply] {
	return simple{
		urgent(l.onLock(script.ShareWeigh(), token, strconv.Itoa(weight), unsigned(granted), unsigned(leased))),
		forms{{Weighed, []field{ttl, fence}}, {Held, nil}, {Quarantined, []field{rest}}, {Gone, nil}, {Absent, nil}},
	}
}

// Resize sets how many permits a semaphore has: share_resize.lua. A limit of 0 leaves the number to the semaphore's users again. The reply
// says how many permits there are, and how many are in use.
func Resize(l Lock, kind string, limit int) Request[Reply] {
	return simple{l.onLock(script.ShareResize(), "", kind, strconv.Itoa(limit)), forms{{Resized, []field{count, count}}}}
}

// Disown ends one hold of an owned lock: share_disown.lua. id is the same in all copies of the request. notAfter is server time in µs. The
// reply says how many holds the owner still has, or which other owner holds the lock.
func Disown(l Lock, id, owner string, notAfter int64) Request[Reply] {
	return simple{
		urgent(l.onLock(script.ShareDisown(), id, owner, decimal(notAfter))),
		forms{{Released, []field{count}}, {Held, []field{holder}}, {Free, nil}, {Late, nil}},
	}
}
