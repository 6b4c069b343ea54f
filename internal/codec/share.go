package codec

import (
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// The kinds of locks that several may hold, as scripts and notifications call them.
const (
	ReadWrite = "rw"
	Semaphore = "sem"
	Owned     = "own"
	Latch     = "latch"
	Barrier   = "bar"
)

// Share is the part of a lock that is wanted.
type Share struct {
	Kind   string
	Limit  int // of all weights together; of an owned lock, of its owner's holds
	Weight int
	Owner  string // of an owned lock
}

// wanted is how much of the lock is wanted, and of an owned lock by whom.
func (s *Share) wanted() string {
	if s.Kind == Owned {
		return strconv.Itoa(s.Weight) + "\n" + s.Owner
	}
	return strconv.Itoa(s.Weight)
}

// ShareAcquire asks for a share of a lock: share_acquire.lua. The lock has Holds.
type ShareAcquire struct {
	Acquire
	Share Share
}

// Call returns the script's call.
func (q *ShareAcquire) Call() driver.Call { return q.call(script.ShareAcquire(), &q.Share) }

// Member returns the waiter's member of the queue.
func (q *ShareAcquire) Member() string { return q.member(q.Share.wanted()) }

// Parse reads the script's reply.
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
	Ending Ending // of a party of a latch or a barrier; else ""
}

// Ending is how a party of a latch or a barrier ends.
type Ending string

const (
	Unaware     Ending = "" // it never knew that it was a party
	Left        Ending = "left"
	Died        Ending = "died"
	CountedDown Ending = "done"
)

// Call returns the script's call.
func (q *ShareRelease) Call() driver.Call { return q.call(script.ShareRelease(), q.Ending) }

// Parse reads the script's reply.
func (q *ShareRelease) Parse(text string) (ReleaseReply, error) {
	head, err := parseWord(text, Released, LeftQueue, Gone, Absent, Superseded)
	return ReleaseReply{Head: head}, err
}

// ShareRenew makes a hold last for at least its TTL: share_renew.lua. FencesAlone makes no difference to it.
type ShareRenew struct{ Renew }

// Call returns the script's call.
func (q *ShareRenew) Call() driver.Call {
	words, n := q.words()
	return renewing(call(script.ShareRenew(), words, n))
}

// Parse reads the script's reply.
func (q *ShareRenew) Parse(text string) (RenewReply, error) {
	return parseRenewal(text, Gone, Absent, Superseded, Quarantined)
}

// Weigh changes the weight of a hold: share_weigh.lua.
type Weigh struct {
	Lock       Lock
	Token      string
	Weight     int
	Fence      uint64 // of the grant
	LeaseFence uint64 // of the lease: a later one if the grant was passed on within the process
}

// Call returns the script's call.
func (q *Weigh) Call() driver.Call {
	return urgent(q.Lock.onLock(script.ShareWeigh(), q.Token, strconv.Itoa(q.Weight), unsigned(q.Fence), unsigned(q.LeaseFence)))
}

// WeighReply is the reply to a change of weight. Which of its fields counts depends on its word:
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

// Parse reads the script's reply.
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

// Holders asks who holds a lock, some holders at a time: share_holders.lua.
type Holders struct {
	Lock   Lock
	Cursor string // "0", or the reply's Next
	Count  int    // about how many to look at
	Kind   string // of the lock; "" for any
}

// Call returns the script's call.
func (q *Holders) Call() driver.Call {
	args := append(make([]string, 0, 4), "", q.Cursor, strconv.Itoa(q.Count))
	if q.Kind != "" {
		args = append(args, q.Kind)
	}
	return q.Lock.onLock(script.ShareHolders(), args...)
}

// HoldersReply has some of a lock's holders: HoldersAre.
type HoldersReply struct {
	Head
	Waiters int
	Used    int64 // the weight of all holds, with those that have expired and are not swept out yet
	Limit   int64 // 0 if the next user sets it
	Next    string
	Holds   []Hold
}

// IsLast reports whether there are no more holders to ask for.
func (r *HoldersReply) IsLast() bool { return r.Next == "0" }

// Hold is one holder's part of a lock.
type Hold struct {
	Token  string
	TTL    time.Duration
	Weight int
	Ours   bool       // Value could be read
	Value  wire.Value // as of a mutex
}

// Parse reads the script's reply.
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

// hold reads a hold.
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
	Limit int // 0 leaves it to its users again
}

// Call returns the script's call.
func (q *Resize) Call() driver.Call {
	return q.Lock.onLock(script.ShareResize(), "", q.Kind, strconv.Itoa(q.Limit))
}

// ResizeReply is the reply to a change of the number of permits: Resized.
type ResizeReply struct {
	Head
	Limit int // 0 if its users set it
	Used  int64
}

// Parse reads the script's reply.
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

// Call returns the script's call.
func (q *Disown) Call() driver.Call {
	return urgent(q.Lock.onLock(script.ShareDisown(), q.ID, q.Owner, decimal(q.NotAfter)))
}

// DisownReply is the reply to a request to end an owner's hold. Which of its fields counts depends on its word:
//
//	Released    Left
//	Held        Holder, another owner
//	Free, Late  none
type DisownReply struct {
	Head
	Left   int // holds that the owner has left
	Holder Holder
}

// Parse reads the script's reply.
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
