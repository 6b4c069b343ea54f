// Package codec gives each script a typed request and a typed reply. A request is the script's call, with its keys and
// arguments in their order; its method Parse reads what the script replies. The headers of the scripts, in
// internal/script, say what fields mean.
//
// The error of a reply that the script cannot give to the request is wire.ErrMalformed; that of a script that has caught
// an error is a wire.ScriptError. Nothing that a server sends makes a parser panic.
package codec

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Request is what a script is sent, and R what it replies.
type Request[R any] interface {
	Call() driver.Call
	Parse(text string) (R, error)
}

// Flags tell a script about its server and its lock. Several are concatenated. The script's mode comes before them,
// and is the request's.
type Flags string

const (
	Cluster  Flags = "c"  // the server runs in Cluster mode
	Shared   Flags = "k"  // other programs use the lock's key, too
	Redisson Flags = "kr" // Redisson's clients do: the lock has the form of their RLock
	Node     Flags = "n"  // the server is a node of a quorum
)

// Strict is the flag of Strict mode: how long nothing is granted after a loss of data, and how much longer if the server
// has replicas.
func Strict(quarantine, lag time.Duration) Flags {
	return Flags("s" + milliseconds(quarantine) + "+" + milliseconds(lag))
}

func (f Flags) in(mode string) string { return mode + string(f) }

// Keys are the keys that scripts take. A lock has those that its kind and its client's mode need.
type Keys struct {
	Lock, Queue, Fence string

	Holds    string // the index of the holds of a lock that several may hold; else ""
	CaughtUp string // what a node of a quorum is caught up for; else ""
	Mark     string // the incarnation mark, in Strict mode and on a node of a quorum; else ""
}

// Lock is what a request concerns: a lock on a server.
type Lock struct {
	Keys  Keys
	Flags Flags
}

// maxKeys is the number of keys that a script takes of one lock.
const maxKeys = 5

// appendOwn appends the keys of the lock, without the server's mark.
func (k *Keys) appendOwn(words []string) []string {
	words = append(words, k.Lock, k.Queue, k.Fence)
	if k.Holds != "" {
		words = append(words, k.Holds)
	}
	return words
}

// appendAll appends the keys of the lock, and the mark if there is one. Without Holds, CaughtUp is left out: only
// scripts of nodes take that.
func (k *Keys) appendAll(words []string) []string {
	words = k.appendOwn(words)
	if k.Mark != "" {
		words = append(words, k.Mark)
	}
	return words
}

// appendNode appends the keys that scripts of nodes take besides locks and queues.
func (k *Keys) appendNode(words []string) []string {
	return append(words, k.Fence, k.CaughtUp, k.Mark)
}

// appendLeast appends the keys that a lock has in any case while it is held.
func (k *Keys) appendLeast(words []string) []string {
	words = append(words, k.Lock)
	if k.Holds != "" {
		words = append(words, k.Holds)
	}
	return words
}

// call makes a call of its words, of which the first so many are keys.
func call(s driver.Script, words []string, keys int) driver.Call {
	return driver.Call{Script: s, Keys: words[:keys:keys], Args: words[keys:]}
}

// urgent makes a call one that does not wait for a connection behind other commands: a renewal, a release, and what
// somebody else waits for.
func urgent(c driver.Call) driver.Call {
	c.Urgent = true
	return c
}

// renewing makes a call an urgent one that renews a lease.
func renewing(c driver.Call) driver.Call {
	c.Renews = true
	return urgent(c)
}

// onLock makes a call of a script that takes all keys of the lock, the flags, and those arguments.
func (l *Lock) onLock(s driver.Script, args ...string) driver.Call {
	words := l.Keys.appendAll(make([]string, 0, maxKeys+1+len(args)))
	n := len(words)
	return call(s, append(append(words, string(l.Flags)), args...), n)
}

// onNode makes a call of a script of nodes.
func (l *Lock) onNode(s driver.Script, args ...string) driver.Call {
	words := append(make([]string, 0, maxKeys+1+len(args)), l.Keys.Lock, l.Keys.Queue)
	words = l.Keys.appendNode(words)
	n := len(words)
	return call(s, append(append(words, string(l.Flags)), args...), n)
}

// byKey makes a call of a script that takes the lock's key alone.
func (l *Lock) byKey(s driver.Script, args ...string) driver.Call {
	words := append(make([]string, 0, 2+len(args)), l.Keys.Lock, string(l.Flags))
	return call(s, append(words, args...), 1)
}

// Word is the word with which a reply begins, which says what happened.
type Word string

// The words of replies. The headers of the scripts say what each means there.
const (
	Absent      Word = "absent"
	Adopted     Word = "adopted"
	Begun       Word = "begun"
	Behind      Word = "behind"
	Broken      Word = "broken"
	Changed     Word = "changed"
	Completed   Word = "completed"
	Counted     Word = "counted"
	CountIs     Word = "count"
	CounterIs   Word = "counter"
	Deep        Word = "deep"
	Done        Word = "done"
	Fenced      Word = "fenced"
	Free        Word = "free"
	Freed       Word = "freed"
	Gone        Word = "gone"
	Granted     Word = "granted"
	Held        Word = "held"
	HoldersAre  Word = "holders"
	KeyHolds    Word = "holds"
	Kept        Word = "kept"
	KeysAre     Word = "keys"
	Known       Word = "known"
	Late        Word = "late"
	LeftQueue   Word = "left"
	NeverDone   Word = "none"
	Noted       Word = "noted"
	NotesAre    Word = "notes"
	Opened      Word = "opened"
	Quarantined Word = "quarantined"
	Queued      Word = "queued"
	Raised      Word = "raised"
	Ready       Word = "ready"
	Released    Word = "released"
	Renewed     Word = "renewed"
	Reset       Word = "reset"
	Resized     Word = "resized"
	SettingsAre Word = "settings"
	Spent       Word = "spent"
	Stale       Word = "stale"
	StatusIs    Word = "status"
	Superseded  Word = "superseded"
	Taken       Word = "taken"
	Told        Word = "told"
	Tripped     Word = "tripped"
	Unmarked    Word = "new"
	Used        Word = "used"
	Waiting     Word = "waiting"
	Wanted      Word = "wanted"
	Weighed     Word = "weighed"
	Withdrawn   Word = "withdrawn"
)

// Achieves reports whether a script's reply says that it has achieved what it is for. Only such a reply matters
// to a request that has to be durable.
func Achieves(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	switch Word(word) {
	case Granted, Adopted, Renewed, Weighed, Begun, Completed, Counted, Released, Reset, Tripped, Waiting:
		return true
	}
	return false
}

// Head begins a reply.
type Head struct {
	Word Word
	Now  int64 // the server's time, µs
}

// Is reports whether a reply begins with that word.
func (h Head) Is(word Word) bool { return h.Word == word }

// Time returns the server's time, µs; 0 if the reply does not have it.
func (h Head) Time() int64 { return h.Now }

// Refusal says why a server grants nothing now. Its zero value says that it does.
type Refusal struct {
	// Quarantine is for how long, in Strict mode, nothing is granted; with Quarantined.
	Quarantine time.Duration
	// Stands is the caught-up mark of a node whose fence counter has to be raised first; with Behind.
	Stands string
}

// KeptData reports whether a node that is behind still has its data, though perhaps not the latest.
func (r Refusal) KeptData() bool { return strings.HasSuffix(r.Stands, "+") }

// Holder is who has a lock.
type Holder struct {
	TTL     time.Duration // what is left; negative if the lock has no expiry
	Waiters int           // in the queue
	Ours    bool          // the value is of this library's format; otherwise another program has the lock
	Value   wire.Value    // if it is ours
}

// maxDuration bounds a server's durations: a server can say more than a time.Duration counts.
const maxDuration = 100 * 365 * 24 * time.Hour

// duration converts a server's ms. All negative ones are alike: there is no such time.
func duration(ms int64) time.Duration {
	return time.Duration(min(max(ms, -1), maxDuration.Milliseconds())) * time.Millisecond
}

// milliseconds writes a duration for a script, rounded up: a server counts whole ms.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

func decimal(n int64) string   { return strconv.FormatInt(n, 10) }
func unsigned(n uint64) string { return strconv.FormatUint(n, 10) }

// reader reads the fields of a reply from left to right. After one that is not as it must be, the reply is malformed,
// and what is read does not matter.
type reader struct {
	rest string
	bad  bool
}

// begin reads the beginning of a reply.
func begin(text string) (Head, reader, error) {
	r, err := wire.ParseReply(text)
	return Head{Word(r.Word), r.Now}, reader{rest: r.Rest()}, err
}

// field reads what is left up to the next space.
func (r *reader) field() (field string) {
	field, r.rest, _ = strings.Cut(r.rest, " ")
	return field
}

// number reads a number that is at least that.
func (r *reader) number(least int64) int64 {
	n, err := strconv.ParseInt(r.field(), 10, 64)
	if err != nil || n < least {
		r.bad = true
		return 0
	}
	return n
}

// count reads a number of something, which is at least that. More than an int32 has is as many as that.
func (r *reader) count(least int64) int { return int(min(r.number(least), math.MaxInt32)) }

// fence reads a fence, which is at least that.
func (r *reader) fence(least int64) uint64 { return uint64(r.number(least)) }

// ttl reads ms that are left, or a negative number.
func (r *reader) ttl() time.Duration { return duration(r.number(math.MinInt64)) }

// is reads a field that is one of two words, and reports whether it is the first.
func (r *reader) is(word, other string) bool {
	field := r.field()
	r.bad = r.bad || field != word && field != other
	return field == word
}

// text reads a field, which is not empty.
func (r *reader) text() string {
	field := r.field()
	r.bad = r.bad || field == ""
	return field
}

// all reads what is left, which may be anything.
func (r *reader) all() string {
	rest := r.rest
	r.rest = ""
	return rest
}

// left reads the rest of a reply to a batch of n: the numbers of the items that it leaves, from 0 and ascending.
func (r *reader) left(n int) []int {
	var all []int
	for last := int64(0); r.rest != "" && !r.bad; {
		i := r.number(last + 1)
		r.bad = r.bad || i > int64(n)
		all = append(all, int(i-1))
		last = i
	}
	if r.bad {
		return nil
	}
	return all
}

// holder reads what is left of a lock, who waits for it, and its value.
func (r *reader) holder() Holder {
	h := Holder{TTL: r.ttl(), Waiters: r.count(0)}
	h.Value, h.Ours = wire.ParseValue(r.all())
	return h
}

// refusal reads why nothing is granted, of a reply with that word; it is malformed if that is another.
func (r *reader) refusal(word Word) (refused Refusal) {
	switch word {
	case Quarantined:
		refused.Quarantine = r.ttl()
	case Behind:
		refused.Stands = r.text()
	default:
		r.bad = true
	}
	return refused
}

// finish returns the reply, all of which was read, or says that it is malformed.
func finish[R any](r *reader, reply R) (R, error) {
	if r.bad || r.rest != "" {
		var none R
		return none, wire.ErrMalformed
	}
	return reply, nil
}

// parseWord reads a reply that is one of those words.
func parseWord(text string, of ...Word) (Head, error) {
	head, r, err := begin(text)
	if err != nil {
		return Head{}, err
	}
	r.bad = !slices.Contains(of, head.Word)
	return finish(&r, head)
}
