package codec

import (
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
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

// ShareAcquire asks for a share of a lock: share_acquire.lua. The lock's keys include Holds.
type ShareAcquire struct {
	Acquire
	Share Share
}

func (q *ShareAcquire) Call() driver.Call { return q.call(script.ShareAcquire(), &q.Share) }

// Member returns the waiter's member of the queue.
func (q *ShareAcquire) Member() string { return q.member(q.Share.wanted()) }

func (q *ShareAcquire) Parse(text string) (AcquireReply, error) {
	head, r, err := begin(text)
	if err != nil || head.Word != Deep {
		return q.Acquire.Parse(text)
	}
	return finish(&r, AcquireReply{Head: head, Holds: r.count(0)})
}

// ShareRelease gives up what a token has of a lock: share_release.lua.
type ShareRelease struct {
	Release
	Ending Ending // for a party of a latch or barrier; else ""
}

// Ending says how a party of a latch or barrier ends.
type Ending string

const (
	Unaware     Ending = "" // the party never learned that it was one
	Left        Ending = "left"
	Died        Ending = "died"
	CountedDown Ending = "done"
)

func (q *ShareRelease) Call() driver.Call { return q.call(script.ShareRelease(), q.Ending) }

func (q *ShareRelease) Parse(text string) (ReleaseReply, error) {
	head, err := parseWord(text, Released, LeftQueue, Gone, Absent, Superseded)
	return ReleaseReply{Head: head}, err
}

// ShareRenew makes a hold last for at least its TTL: share_renew.lua. It ignores FencesAlone.
type ShareRenew struct{ Renew }

func (q *ShareRenew) Call() driver.Call {
	words, n := q.words()
	return renewing(call(script.ShareRenew(), words, n))
}

func (q *ShareRenew) Parse(text string) (RenewReply, error) {
	return parseRenewal(text, Gone, Absent, Superseded, Quarantined)
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

// WeighReply is the reply to a change of weight. Its word says which fields are set:
//
//	Weighed      TTL and Fence
//	Held         none: nothing has changed
//	Gone, Absent none
//	Quarantined  Refusal
type WeighReply struct {
	Head
	TTL     time.Duration
	Fence   uint64
	Refusal Refusal
}

func (q *Weigh) Parse(text string) (WeighReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return WeighReply{}, err
	}
	reply := WeighReply{Head: head}
	switch head.Word {
	case Weighed:
		reply.TTL, reply.Fence = r.ttl(), r.fence(1)
	case Held, Gone, Absent:
	case Quarantined:
		reply.Refusal = r.refusal(head.Word)
	default:
		r.bad = true
	}
	return finish(&r, reply)
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
	Waiters int
	Used    int64 // the weight of all holds, including expired ones that have not been removed yet
	Limit   int64 // 0 if the next user sets it
	Next    string
	Holds   []Hold
}

// IsLast reports whether this was the last page.
func (r *HoldersReply) IsLast() bool { return r.Next == "0" }

// Hold is one holder's share of a lock.
type Hold struct {
	Token  string
	TTL    time.Duration
	Weight int
	Ours   bool       // Value could be read
	Value  wire.Value // as in a mutex
}

func (q *Holders) Parse(text string) (HoldersReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return HoldersReply{}, err
	}
	var lines string
	r.rest, lines, _ = strings.Cut(r.rest, "\n")
	r.bad = head.Word != HoldersAre
	reply, err := finish(&r, HoldersReply{Head: head, Waiters: r.count(0), Used: r.number(0), Limit: r.number(0), Next: r.text()})
	for line := range strings.SplitSeq(lines, "\n") {
		if err == nil && line != "" {
			r.rest = line
			reply.Holds = append(reply.Holds, r.hold())
		}
	}
	if err != nil {
		return HoldersReply{}, err
	}
	return finish(&r, reply)
}

func (r *reader) hold() Hold {
	h := Hold{TTL: r.ttl(), Weight: r.count(0)}
	value := r.all()
	h.Value, h.Ours = wire.ParseValue(value)
	h.Token = wire.TokenOf(value)
	return h
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

// ResizeReply is the reply to a Resize: Resized.
type ResizeReply struct {
	Head
	Limit int // 0 if the semaphore's users set it
	Used  int64
}

func (q *Resize) Parse(text string) (ResizeReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return ResizeReply{}, err
	}
	r.bad = head.Word != Resized
	return finish(&r, ResizeReply{Head: head, Limit: r.count(0), Used: r.number(0)})
}

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

// DisownReply is the reply to a Disown. Its word says which fields are set:
//
//	Released    Left
//	Held        Holder: another owner
//	Free, Late  none
type DisownReply struct {
	Head
	Left   int // how many holds the owner still has
	Holder Holder
}

func (q *Disown) Parse(text string) (DisownReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return DisownReply{}, err
	}
	reply := DisownReply{Head: head}
	switch head.Word {
	case Released:
		reply.Left = r.count(0)
	case Held:
		reply.Holder = r.holder()
	case Free, Late:
	default:
		r.bad = true
	}
	return finish(&r, reply)
}
