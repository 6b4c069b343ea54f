package codec

import (
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

// Acquire asks for a mutex, or for a share of a lock: acquire.lua or share_acquire.lua.
type Acquire struct {
	Lock     Lock
	Share    Share // zero for a mutex
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

func (q *Acquire) Call() driver.Call {
	s := script.Acquire
	args := append(make([]string, 0, 11), q.Token, milliseconds(q.TTL), decimal(q.NotAfter), strconv.Itoa(q.Fences), q.Info)
	if q.Share.Kind != "" {
		s, args = script.ShareAcquire, append(args, q.Share.Kind, strconv.Itoa(q.Share.Limit), q.Share.wanted())
	}
	if q.Mode != Try {
		score := ""
		if q.Score != 0 {
			score = decimal(q.Score)
		}
		args = append(args, q.claim(), q.Channel, score)
	}
	return onKeys(s(), q.Lock.Keys.appendAll(room(len(args))), Flags(q.Mode)+q.Lock.Flags, args...)
}

// claim returns the waiter's claim, with its promise if it makes one.
func (q *Acquire) claim() string {
	if q.By == 0 {
		return milliseconds(q.Claim)
	}
	return milliseconds(q.Claim) + "@" + decimal(q.By)
}

// Member returns the waiter's member of the queue.
func (q *Acquire) Member() string {
	fields := append(make([]string, 0, 5), q.Token, q.claim(), q.Channel)
	if q.Share.Kind != "" {
		fields = append(fields, q.Share.wanted())
	}
	return strings.Join(append(fields, q.Info), "\n")
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

func (r *reader) place() *Place {
	return &Place{TTL: r.ttl(), Score: r.number(0), Rank: r.count(1), Receivers: r.count(0)}
}

// The replies to Try, those to Wait and Look, and the one that only a share can get.
var (
	tried   = forms{{Granted, []field{ttl, fence, block}}, {Held, []field{holder}}, {Gone, nil}, {Late, nil}, {Quarantined, []field{rest}}}
	queued  = forms{{Granted, []field{ttl, fence, block}}, {Queued, []field{place, foreign}}, {Gone, nil}, {Late, nil}}
	tooDeep = form{Deep, []field{count}} // the count is that of the owner's holds
)

func (q *Acquire) Parse(text string) (Reply, error) {
	all := tried
	if q.Mode != Try {
		all = queued
	}
	if q.Share.Kind != "" {
		all = append(all[:len(all):len(all)], tooDeep)
	}
	return all.parse(text)
}

// Release gives up what a token has: release.lua or, if the lock can have several holders, share_release.lua.
type Release struct {
	Lock      Lock
	Token     string
	Member    string // the token's entry of the queue, or ""
	Tombstone int64  // server time, µs, until which an acquire of the token may still arrive; 0 if none can
	// Next, if not nil, is a waiter's request for the same mutex. If the lock is handed to another waiter, Next may be queued behind all
	// others.
	Next   *Acquire
	Ending Ending // for a party of a latch or barrier; else ""
}

func (q *Release) Call() driver.Call {
	s := script.Release
	args := append(make([]string, 0, 6), q.Token, q.Member, decimal(q.Tombstone))
	if q.Lock.Keys.Holds != "" {
		s = script.ShareRelease
	}
	if q.Ending != Unaware {
		args = append(args, string(q.Ending))
	} else if q.Next != nil {
		args = append(args, decimal(q.Next.NotAfter), q.Next.Member(), q.Next.Channel)
	}
	return urgent(q.Lock.onLock(s(), args...))
}

// The replies to a release, to one of a share, and to one that has a waiter queued.
var (
	released      = forms{{Released, nil}, {LeftQueue, nil}, {Gone, nil}, {Absent, nil}}
	shareReleased = append(forms{{Superseded, nil}}, released...)
	passedOn      = append(forms{{Released, []field{nextPlace}}}, released[1:]...)
)

func (q *Release) Parse(text string) (Reply, error) {
	switch {
	case q.Lock.Keys.Holds != "":
		return shareReleased.parse(text)
	case q.Next != nil:
		return passedOn.parse(text)
	}
	return released.parse(text)
}

// ReleaseByKey gives up a mutex that nobody waits for: release_by_key.lua. After Kept, the release script has to decide.
func ReleaseByKey(l Lock, token string) Request[Reply] {
	return simple{urgent(l.byKey(script.ReleaseByKey(), token)), forms{{Released, nil}, {Kept, nil}}}
}

// Renew makes a lease of a mutex, or of a share of a lock, last for at least its TTL: renew.lua or share_renew.lua.
type Renew struct {
	Lock   Lock
	Token  string
	TTL    time.Duration
	Fence  uint64 // of the grant
	Fences int    // wanted
	// FencesAlone is how many fences of a mutex are wanted if only the caller's process has waiters, which listen on Channel; 0 if other
	// processes' waiters make no difference.
	FencesAlone int
	Channel     string
}

// Call returns the script's call. If no fences are wanted, its keys are only those that exist while the lock is held, since a missing key
// makes a script fail in a slot that is on the move.
func (q *Renew) Call() driver.Call {
	s, k := script.Renew, &q.Lock.Keys
	args := append(make([]string, 0, 6), q.Token, milliseconds(q.TTL), strconv.Itoa(q.Fences), unsigned(q.Fence))
	if q.Fences > 0 && q.FencesAlone > 0 {
		args = append(args, strconv.Itoa(q.FencesAlone), q.Channel)
	}
	words := room(len(args))
	if q.Fences > 0 || k.Mark != "" {
		words = k.appendAll(words)
	} else {
		words = append(words, k.Lock)
		if k.Holds != "" {
			words = append(words, k.Holds)
		}
	}
	if k.Holds != "" {
		s = script.ShareRenew
	}
	return renewing(onKeys(s(), words, q.Lock.Flags, args...))
}

// The replies to a renewal, and to that of a share.
var (
	renewed      = forms{{Renewed, []field{ttl, reserved}}, {Quarantined, []field{rest}}, {Gone, nil}, {Absent, nil}}
	shareRenewed = append(forms{{Superseded, nil}}, renewed...)
)

func (q *Renew) Parse(text string) (Reply, error) {
	if q.Lock.Keys.Holds != "" {
		return shareRenewed.parse(text)
	}
	return renewed.parse(text)
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

var reasserted = forms{{Renewed, []field{ttl, reserved}}, {Gone, nil}, {Absent, nil}, {Late, nil}}

func (q *Reassert) Parse(text string) (Reply, error) { return reasserted.parse(text) }

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

var adopted = forms{
	{Adopted, []field{ttl, fence}}, // a new fence
	{Quarantined, []field{rest}},
	{Gone, nil},   // another holds the lock
	{Absent, nil}, // nobody does
	{Late, nil},
}

func (q *Adopt) Parse(text string) (Reply, error) { return adopted.parse(text) }

// Break takes a lock from the holder with a grant id: break.lua or share_break.lua.
type Break struct {
	Lock     Lock
	Journal  Journal
	Kind     string // of the lock, as in StatusReply
	ID       string // of the request: the same in its repetitions
	Grant    string // the holder's
	NotAfter int64  // server time, µs
	Note     string // by and for the operator, without line feeds
}

func (q *Break) Call() driver.Call {
	s, k := script.Break, &q.Lock.Keys
	if k.Holds != "" {
		s = script.ShareBreak
	}
	words := k.appendOwn(make([]string, 0, maxKeys+8))
	if !strings.Contains(string(q.Lock.Flags), string(Cluster)) {
		words = append(words, q.Journal.Key)
	}
	if k.Mark != "" {
		words = append(words, k.Mark)
	}
	return urgent(onKeys(s(), words, q.Lock.Flags, q.ID, q.Grant, decimal(q.NotAfter), q.Kind, q.Note, q.Journal.Channel))
}

var broke = forms{
	{Broken, []field{ended}},   // the fence is the lock's since the break; the holder's token is cut down to the grant id
	{Changed, []field{holder}}, // whose grant id is another
	{Free, nil}, {Late, nil},
}

func (q *Break) Parse(text string) (Reply, error) { return broke.parse(text) }
