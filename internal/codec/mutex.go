package codec

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Mode says how to ask for a lock.
type Mode string

const (
	Try  Mode = "t" // acquire now or not at all
	Wait Mode = "w" // queue if the lock cannot be granted
	Look Mode = "l" // a waiter's check
)

// Acquire asks for a mutex: acquire.lua.
type Acquire struct {
	Lock     Lock
	Mode     Mode
	Token    string
	TTL      time.Duration
	NotAfter int64 // server time, µs; 0 for none
	Fences   int   // wanted
	Info     string

	// Of a waiter, with Wait and Look. They must be the same in all its requests: otherwise it would be in the queue twice.
	Claim   time.Duration
	By      int64 // server time, ms, at which the waiter promises to look; 0 for no promise
	Channel string
	Score   int64 // of the entry that this one replaces, or of the waiter's own; 0 for none
}

func (q *Acquire) Call() driver.Call { return q.call(script.Acquire(), nil) }

func (q *Acquire) call(s driver.Script, share *Share) driver.Call {
	words := q.Lock.Keys.appendAll(make([]string, 0, maxKeys+12))
	n := len(words)
	words = append(words, q.Lock.Flags.in(string(q.Mode)), q.Token, milliseconds(q.TTL), decimal(q.NotAfter), strconv.Itoa(q.Fences), q.Info)
	if share != nil {
		words = append(words, share.Kind, strconv.Itoa(share.Limit), share.wanted())
	}
	if q.Mode != Try {
		score := ""
		if q.Score != 0 {
			score = decimal(q.Score)
		}
		words = append(words, q.claim(), q.Channel, score)
	}
	return call(s, words, n)
}

// claim returns the waiter's claim, with its promise if it makes one.
func (q *Acquire) claim() string {
	if q.By == 0 {
		return milliseconds(q.Claim)
	}
	return milliseconds(q.Claim) + "@" + decimal(q.By)
}

// Member returns the waiter's member of the queue.
func (q *Acquire) Member() string { return q.member("") }

// member returns the member of a waiter. wanted, if not "", says how much of the lock it asks for.
func (q *Acquire) member(wanted string) string {
	fields := []string{q.Token, q.claim(), q.Channel, wanted, q.Info}
	if wanted == "" {
		fields = append(fields[:3], q.Info)
	}
	return strings.Join(fields, "\n")
}

// AcquireReply is the reply to a request for a lock. Its word says which fields are set:
//
//	Granted      Grant
//	Held         Holder; to Try
//	Queued       Place; to Wait and Look
//	Deep         Holds; to ShareAcquire
//	Gone, Late   none
//	Quarantined  Refusal; to Try
type AcquireReply struct {
	Head
	Grant   Grant
	Holder  *Holder // a pointer, since Holder is large and a free lock has none
	Place   Place
	Holds   int // of the owner
	Refusal Refusal
}

// Grant describes a grant.
type Grant struct {
	TTL   time.Duration // negative if the lock has no expiry
	Fence uint64        // the first of the reserved fences
	Block int64         // how many fences are reserved
}

// Place is a waiter's place in the queue.
type Place struct {
	TTL       time.Duration // until the lock may be free; negative if it has no expiry
	Score     int64
	Rank      int // from 1
	Receivers int // of the waiter's channel, on the lock's server
	// Foreign says that the holder will not notify this queue on release: the holder is another program, or serves another queue.
	Foreign bool
}

func (q *Acquire) Parse(text string) (AcquireReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return AcquireReply{}, err
	}
	reply := AcquireReply{Head: head}
	switch word, waits := head.Word, q.Mode != Try; {
	case word == Granted:
		reply.Grant = Grant{TTL: r.ttl(), Fence: r.fence(1), Block: r.number(1)}
	case word == Held && !waits:
		holder := r.holder()
		reply.Holder = &holder
	case word == Queued && waits:
		reply.Place = Place{TTL: r.ttl(), Score: r.number(0), Rank: r.count(1), Receivers: r.count(0), Foreign: r.is("foreign", "ours")}
	case word == Gone, word == Late:
	case word == Quarantined && !waits:
		reply.Refusal = r.refusal(word)
	default:
		r.bad = true
	}
	return finish(&r, reply)
}

// Release gives up what a token has: release.lua.
type Release struct {
	Lock      Lock
	Token     string
	Member    string // the token's entry of the queue, or ""
	Tombstone int64  // server time, µs, until which an acquire of the token may still arrive; 0 if none can
	// Next, if not nil, is a waiter's request for the same lock. If the lock is handed to another waiter, Next may be queued behind all
	// others.
	Next *Acquire
}

func (q *Release) Call() driver.Call { return q.call(script.Release(), "") }

func (q *Release) call(s driver.Script, how Ending) driver.Call {
	words := q.Lock.Keys.appendAll(make([]string, 0, maxKeys+5))
	n := len(words)
	words = append(words, string(q.Lock.Flags), q.Token, q.Member, decimal(q.Tombstone))
	if how != "" {
		words = append(words, string(how))
	} else if q.Next != nil {
		words = append(words, decimal(q.Next.NotAfter), q.Next.Member(), q.Next.Channel)
	}
	return urgent(call(s, words, n))
}

// ReleaseReply is the reply to a release: Released, LeftQueue, Gone or Absent. ShareRelease can also get Superseded. ReleaseByKey gets
// Released or Kept.
type ReleaseReply struct {
	Head
	Place *Place // Next's, if it was queued
}

func (q *Release) Parse(text string) (ReleaseReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return ReleaseReply{}, err
	}
	reply := ReleaseReply{Head: head}
	switch head.Word {
	case Released:
		if q.Next != nil && r.rest != "" {
			reply.Place = &Place{TTL: r.ttl(), Score: r.number(0), Rank: r.count(1), Receivers: r.count(0)}
		}
	case LeftQueue, Gone, Absent:
	default:
		r.bad = true
	}
	return finish(&r, reply)
}

// ReleaseByKey gives up a mutex that nobody waits for: release_by_key.lua.
type ReleaseByKey struct {
	Lock  Lock
	Token string
}

func (q *ReleaseByKey) Call() driver.Call {
	return urgent(q.Lock.byKey(script.ReleaseByKey(), q.Token))
}

func (q *ReleaseByKey) Parse(text string) (ReleaseReply, error) {
	head, err := parseWord(text, Released, Kept)
	return ReleaseReply{Head: head}, err
}

// Renew makes a lease of a mutex last for at least its TTL: renew.lua.
type Renew struct {
	Lock   Lock
	Token  string
	TTL    time.Duration
	Fence  uint64 // of the grant
	Fences int    // wanted
	// FencesAlone is how many fences are wanted if only the caller's process has waiters, which listen on Channel; 0 if other processes'
	// waiters make no difference.
	FencesAlone int
	Channel     string
}

func (q *Renew) Call() driver.Call {
	words, n := q.words()
	if q.Fences > 0 && q.FencesAlone > 0 {
		words = append(words, strconv.Itoa(q.FencesAlone), q.Channel)
	}
	return renewing(call(script.Renew(), words, n))
}

// words returns the keys and arguments of any renewal, and the number of keys. If no fences are wanted, the keys are only those that exist
// while the lock is held, since a missing key makes a script fail in a slot that is on the move.
func (q *Renew) words() (words []string, keys int) {
	words = make([]string, 0, maxKeys+7)
	if q.Fences == 0 && q.Lock.Keys.Mark == "" {
		words = q.Lock.Keys.appendLeast(words)
	} else {
		words = q.Lock.Keys.appendAll(words)
	}
	keys = len(words)
	return append(words, string(q.Lock.Flags), q.Token, milliseconds(q.TTL), strconv.Itoa(q.Fences), unsigned(q.Fence)), keys
}

// RenewReply is the reply to a renewal. Its word says which fields are set:
//
//	Renewed       Grant, with the fences that were reserved; none if Block is 0
//	Gone, Absent  none
//	Superseded    none; of ShareRenew
//	Late          none; of Reassert
//	Quarantined   Refusal; not of Reassert
type RenewReply struct {
	Head
	Grant   Grant
	Refusal Refusal
}

func (q *Renew) Parse(text string) (RenewReply, error) {
	return parseRenewal(text, Gone, Absent, Quarantined)
}

// parseRenewal reads the reply to a renewal: Renewed, or one of the other words given.
func parseRenewal(text string, others ...Word) (RenewReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return RenewReply{}, err
	}
	reply := RenewReply{Head: head}
	switch word := head.Word; {
	case word == Renewed:
		reply.Grant = Grant{TTL: r.ttl(), Fence: r.fence(0), Block: r.number(0)}
		r.bad = r.bad || reply.Grant.Block > 0 && reply.Grant.Fence == 0
	case !slices.Contains(others, word):
		r.bad = true
	case word == Quarantined:
		reply.Refusal = r.refusal(word)
	}
	return finish(&r, reply)
}

// Reassert asks for a mutex that the server may have lost with its other data: reassert.lua.
type Reassert struct {
	Lock      Lock
	Token     string
	TTL       time.Duration
	NotAfter  int64  // server time, µs
	Fence     uint64 // of the grant
	Reserved  uint64 // the last fence reserved with the grant
	Info      string
	GrantedAt int64         // server time, µs, in the reply that granted the lock
	Age       time.Duration // at least from the sending of that reply's request to the arrival of Absent
	Asked     int64         // server time, µs, in the reply Absent
}

func (q *Reassert) Call() driver.Call {
	return renewing(q.Lock.onLock(script.Reassert(), q.Token, milliseconds(q.TTL), decimal(q.NotAfter),
		unsigned(q.Fence), unsigned(q.Reserved), q.Info, decimal(q.GrantedAt), decimal(q.Age.Microseconds()), decimal(q.Asked)))
}

func (q *Reassert) Parse(text string) (RenewReply, error) {
	return parseRenewal(text, Gone, Absent, Late)
}

// Adopt takes over a mutex that its holder has detached, for the holder of the ticket: adopt.lua.
type Adopt struct {
	Lock     Lock
	Token    string // new for this request
	TTL      time.Duration
	NotAfter int64 // server time, µs; 0 for none
	Info     string

	Detached  string // the ticket's token
	Fence     uint64 // the ticket's, which is also in the lock's value
	Tombstone int64  // server time, µs, until which an acquire of the ticket's token may still arrive; 0 if none can
}

func (q *Adopt) Call() driver.Call {
	return q.Lock.onLock(script.Adopt(), q.Token, milliseconds(q.TTL), decimal(q.NotAfter), q.Info,
		q.Detached, unsigned(q.Fence), decimal(q.Tombstone))
}

// AdoptReply is the reply to an adoption. Its word says which fields are set:
//
//	Adopted             TTL and a new Fence
//	Gone, Absent, Late  none: another holds the lock; nobody does; or the request was late
//	Quarantined         Refusal
type AdoptReply struct {
	Head
	TTL     time.Duration
	Fence   uint64
	Refusal Refusal
}

func (q *Adopt) Parse(text string) (AdoptReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return AdoptReply{}, err
	}
	reply := AdoptReply{Head: head}
	switch head.Word {
	case Adopted:
		reply.TTL, reply.Fence = r.ttl(), r.fence(1)
	case Gone, Absent, Late:
	case Quarantined:
		reply.Refusal = r.refusal(head.Word)
	default:
		r.bad = true
	}
	return finish(&r, reply)
}

// WhoHolds asks who holds a mutex: holder.lua.
type WhoHolds struct{ Lock Lock }

func (q *WhoHolds) Call() driver.Call { return q.Lock.onLock(script.Holder(), "") }

// HolderReply says who holds a mutex: Held with Holder, or Free with Waiters.
type HolderReply struct {
	Head
	Holder  Holder
	Waiters int
}

func (q *WhoHolds) Parse(text string) (HolderReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return HolderReply{}, err
	}
	reply := HolderReply{Head: head}
	switch head.Word {
	case Held:
		reply.Holder = r.holder()
		reply.Waiters = reply.Holder.Waiters
	case Free:
		reply.Waiters = r.count(0)
	default:
		r.bad = true
	}
	return finish(&r, reply)
}
