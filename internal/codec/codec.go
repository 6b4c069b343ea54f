// Package codec gives each script a typed request and a typed reply. The headers of the scripts, in internal/script, say what their fields
// mean.
//
// A reply that the script cannot give to the request is wire.ErrMalformed. A reply in which the script reports an error is a
// wire.ScriptError. Nothing that a server sends makes a parser panic.
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

// Request is a request to a script. Call returns the script's call, with keys and arguments in order. Parse reads the script's reply.
type Request[R any] interface {
	Call() driver.Call
	Parse(text string) (R, error)
}

// Flags tell a script about its server and its lock. Several are concatenated. The mode of the request, which some scripts take, comes
// before them.
type Flags string

const (
	Cluster  Flags = "c"  // the server runs in Cluster mode
	Shared   Flags = "k"  // other programs also use the lock's key
	Redisson Flags = "kr" // Redisson's clients do: the lock has the format of their RLock
	Node     Flags = "n"  // the server is a node of a quorum
)

// Strict returns the flag of Strict mode: how long nothing is granted after a loss of data, and how much longer if the server has replicas.
func Strict(quarantine, lag time.Duration) Flags {
	return Flags("s" + milliseconds(quarantine) + "+" + milliseconds(lag))
}

func (f Flags) in(mode string) string { return mode + string(f) }

// Keys are the keys that scripts take. Which ones a lock has depends on its kind and its client's mode.
type Keys struct {
	Lock, Queue, Fence string

	Holds    string // the index of holds, if the lock can have several holders; else ""
	CaughtUp string // the mark that says what a node of a quorum has caught up for; else ""
	Mark     string // the incarnation mark, in Strict mode and on a node of a quorum; else ""
}

// Lock is the lock on a server that a request is about.
type Lock struct {
	Keys  Keys
	Flags Flags
}

// maxKeys bounds how many keys of one lock a script takes.
const maxKeys = 5

// appendOwn appends the keys of the lock, without the server's mark.
func (k *Keys) appendOwn(words []string) []string {
	words = append(words, k.Lock, k.Queue, k.Fence)
	if k.Holds != "" {
		words = append(words, k.Holds)
	}
	return words
}

// appendAll appends the keys of the lock, and the mark if there is one. It leaves out CaughtUp, which only scripts of nodes take.
func (k *Keys) appendAll(words []string) []string {
	words = k.appendOwn(words)
	if k.Mark != "" {
		words = append(words, k.Mark)
	}
	return words
}

// appendNode appends the keys that scripts of nodes take after the lock's key and queue.
func (k *Keys) appendNode(words []string) []string {
	return append(words, k.Fence, k.CaughtUp, k.Mark)
}

// appendLeast appends the keys that exist whenever the lock is held.
func (k *Keys) appendLeast(words []string) []string {
	words = append(words, k.Lock)
	if k.Holds != "" {
		words = append(words, k.Holds)
	}
	return words
}

// call makes a call of words, of which the first keys are keys.
func call(s driver.Script, words []string, keys int) driver.Call {
	return driver.Call{Script: s, Keys: words[:keys:keys], Args: words[keys:]}
}

// urgent marks a call that does not wait for a connection behind other commands: a renewal, a release, or a request that others wait for.
func urgent(c driver.Call) driver.Call {
	c.Urgent = true
	return c
}

// renewing marks a call as urgent, and as the renewal of a lease.
func renewing(c driver.Call) driver.Call {
	c.Renews = true
	return urgent(c)
}

// onLock makes a call of a script that takes all keys of the lock, the flags, and args.
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

// byKey makes a call of a script that takes the lock's key only.
func (l *Lock) byKey(s driver.Script, args ...string) driver.Call {
	words := append(make([]string, 0, 2+len(args)), l.Keys.Lock, string(l.Flags))
	return call(s, append(words, args...), 1)
}

// Word is the first word of a reply. It says what happened.
type Word string

// The words of replies. Each script's header says what they mean there.
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

// Achieves reports whether a script's reply says that it has achieved its purpose. A request that has to be durable needs confirmation only
// of such a reply.
func Achieves(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	switch Word(word) {
	case Granted, Adopted, Renewed, Weighed, Begun, Completed, Counted, Released, Reset, Tripped, Waiting:
		return true
	}
	return false
}

// Head is the beginning of a reply.
type Head struct {
	Word Word
	Now  int64 // the server's time, µs
}

// Is reports whether a reply's first word is word.
func (h Head) Is(word Word) bool { return h.Word == word }

// Time returns the server's time in µs, or 0 if the reply does not contain it.
func (h Head) Time() int64 { return h.Now }

// Refusal says why a server grants nothing now. It is zero if the server does grant.
type Refusal struct {
	// Quarantine is how long, in Strict mode, nothing will be granted. It belongs to Quarantined.
	Quarantine time.Duration
	// Stands is the caught-up mark of a node whose fence counter has to be raised first. It belongs to Behind.
	Stands string
}

// KeptData reports whether a node that is behind still has its data, though perhaps not the latest.
func (r Refusal) KeptData() bool { return strings.HasSuffix(r.Stands, "+") }

// Holder is the holder of a lock.
type Holder struct {
	TTL     time.Duration // what is left; negative if the lock has no expiry
	Waiters int           // in the queue
	Ours    bool          // Value is in this library's format; otherwise another program holds the lock
	Value   wire.Value    // if Ours
}

// maxDuration bounds durations from a server, which can exceed a time.Duration.
const maxDuration = 100 * 365 * 24 * time.Hour

// duration converts a server's ms. It returns the same for all negative numbers, which stand for no time.
func duration(ms int64) time.Duration {
	return time.Duration(min(max(ms, -1), maxDuration.Milliseconds())) * time.Millisecond
}

// milliseconds formats a duration for a script, rounded up, since a server counts whole ms.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

func decimal(n int64) string   { return strconv.FormatInt(n, 10) }
func unsigned(n uint64) string { return strconv.FormatUint(n, 10) }

// reader reads the fields of a reply from left to right. Once a field is malformed, bad is set and later results are meaningless.
type reader struct {
	rest string
	bad  bool
}

func begin(text string) (Head, reader, error) {
	r, err := wire.ParseReply(text)
	return Head{Word(r.Word), r.Now}, reader{rest: r.Rest()}, err
}

// field reads up to the next space.
func (r *reader) field() (field string) {
	field, r.rest, _ = strings.Cut(r.rest, " ")
	return field
}

// number reads a number. Numbers below least are malformed.
func (r *reader) number(least int64) int64 {
	n, err := strconv.ParseInt(r.field(), 10, 64)
	if err != nil || n < least {
		r.bad = true
		return 0
	}
	return n
}

// count reads how many there are of something, at least least. It caps the number at MaxInt32.
func (r *reader) count(least int64) int { return int(min(r.number(least), math.MaxInt32)) }

// fence reads a fence, at least least.
func (r *reader) fence(least int64) uint64 { return uint64(r.number(least)) }

// ttl reads the ms that are left, or a negative number.
func (r *reader) ttl() time.Duration { return duration(r.number(math.MinInt64)) }

// is reads a field that must be one of two words, and reports whether it is the first.
func (r *reader) is(word, other string) bool {
	field := r.field()
	r.bad = r.bad || field != word && field != other
	return field == word
}

// text reads a field that must not be empty.
func (r *reader) text() string {
	field := r.field()
	r.bad = r.bad || field == ""
	return field
}

// all reads the rest, which may be anything.
func (r *reader) all() string {
	rest := r.rest
	r.rest = ""
	return rest
}

// left reads the rest of a reply to a batch of n items: the items left out, which the reply numbers from 1. It returns them numbered from
// 0, ascending.
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

// holder reads how long the lock lasts, the number of waiters, and the lock's value.
func (r *reader) holder() Holder {
	h := Holder{TTL: r.ttl(), Waiters: r.count(0)}
	h.Value, h.Ours = wire.ParseValue(r.all())
	return h
}

// refusal reads why nothing is granted. A reply with another word than Quarantined or Behind is malformed.
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

// finish returns the reply. It is malformed if a field was, or if something was left unread.
func finish[R any](r *reader, reply R) (R, error) {
	if r.bad || r.rest != "" {
		var none R
		return none, wire.ErrMalformed
	}
	return reply, nil
}

// parseWord reads a reply that consists of one of these words.
func parseWord(text string, of ...Word) (Head, error) {
	head, r, err := begin(text)
	if err != nil {
		return Head{}, err
	}
	r.bad = !slices.Contains(of, head.Word)
	return finish(&r, head)
}
