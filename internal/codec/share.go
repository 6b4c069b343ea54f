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

// Weigh changes the weight of a hold: share_weigh.lua.
type Weigh struct {
	Lock       Lock
	Token      string
	Weight     int
	Fence      uint64 // of the grant
	LeaseFence uint64 // later than Fence if the grant was passed on within the process
}

func (q *Weigh) Call() driver.Call {
	return urgent(q.Lock.onLock(script.ShareWeigh(), q.Token, strconv.Itoa(q.Weight), unsigned(q.Fence), unsigned(q.LeaseFence)))
}

var weighed = forms{
	{Weighed, []field{ttl, fence}},
	{Held, nil}, // nothing has changed
	{Quarantined, []field{rest}},
	{Gone, nil}, {Absent, nil},
}

func (q *Weigh) Parse(text string) (Reply, error) { return weighed.parse(text) }

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

// Resize sets how many permits a semaphore has: share_resize.lua.
type Resize struct {
	Lock  Lock
	Kind  string
	Limit int // 0 leaves the number to the semaphore's users again
}

func (q *Resize) Call() driver.Call {
	return q.Lock.onLock(script.ShareResize(), "", q.Kind, strconv.Itoa(q.Limit))
}

// The reply says how many permits there are, and how many are in use.
var resized = forms{{Resized, []field{count, count}}}

func (q *Resize) Parse(text string) (Reply, error) { return resized.parse(text) }

// Disown ends one hold of an owned lock: share_disown.lua.
type Disown struct {
	Lock     Lock
	ID       string // of the request: the same in its repetitions
	Owner    string
	NotAfter int64 // server time, µs
}

func (q *Disown) Call() driver.Call {
	return urgent(q.Lock.onLock(script.ShareDisown(), q.ID, q.Owner, decimal(q.NotAfter)))
}

var disowned = forms{
	{Released, []field{count}}, // how many holds the owner still has
	{Held, []field{holder}},    // another owner
	{Free, nil}, {Late, nil},
}

func (q *Disown) Parse(text string) (Reply, error) { return disowned.parse(text) }
