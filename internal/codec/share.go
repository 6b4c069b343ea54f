package codec

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
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

// Weigh changes the weight of a hold: share_weigh.lua. fence is that of the grant; leaseFence is later if the grant was passed on within
// the process.
func Weigh(l Lock, token string, weight int, fence, leaseFence uint64) Request[Reply] {
	return simple{urgent(l.onLock(script.ShareWeigh(), token, strconv.Itoa(weight), unsigned(fence), unsigned(leaseFence))), weighed}
}

var weighed = forms{
	{Weighed, []field{ttl, fence}},
	{Held, nil}, // nothing has changed
	{Quarantined, []field{rest}},
	{Gone, nil}, {Absent, nil},
}

// Holders asks for a page of a lock's holders: share_holders.lua.
type Holders struct {
	Lock   Lock
	Cursor string // "0", or Next of the previous reply
	Count  int    // about how many holders to look at
	Kind   string // of the lock; "" for any
}

func (q *Holders) Call() driver.Call {
	args := append(make([]string, 0, 4), "", q.Cursor, strconv.Itoa(q.Count))
	if q.Kind != "" {
		args = append(args, q.Kind)
	}
	return q.Lock.onLock(script.ShareHolders(), args...)
}

// HoldersReply is a page of a lock's holders: HoldersAre.
type HoldersReply struct {
	Head
	Page
	Waiters int
	Used    int64 // the weight of all holds, including expired ones that have not been removed yet
	Limit   int64 // 0 if the next user sets it
	Holds   []Hold
}

func (q *Holders) Parse(text string) (HoldersReply, error) {
	r := begin(text)
	lines := r.otherLines()
	reply := HoldersReply{Head: r.Head, Waiters: r.count(0), Used: r.number(0), Limit: r.number(0), Page: Page{r.text()}}
	r.bad = r.bad || r.Word != HoldersAre
	r.endLine()
	for line := range strings.SplitSeq(lines, "\n") {
		if !r.bad && line != "" {
			r.rest = line
			reply.Holds = append(reply.Holds, r.hold())
		}
	}
	return finish(&r, reply)
}

// Resize sets how many permits a semaphore has: share_resize.lua. A limit of 0 leaves the number to the semaphore's users again.
func Resize(l Lock, kind string, limit int) Request[Reply] {
	return simple{l.onLock(script.ShareResize(), "", kind, strconv.Itoa(limit)), resized}
}

// The reply says how many permits there are, and how many are in use.
var resized = forms{{Resized, []field{count, count}}}

// Disown ends one hold of an owned lock: share_disown.lua. id is the same in all copies of the request. notAfter is server time in
// µs.
func Disown(l Lock, id, owner string, notAfter int64) Request[Reply] {
	return simple{urgent(l.onLock(script.ShareDisown(), id, owner, decimal(notAfter))), disowned}
}

var disowned = forms{
	{Released, []field{count}}, // how many holds the owner still has
	{Held, []field{holder}},    // another owner
	{Free, nil}, {Late, nil},
}
