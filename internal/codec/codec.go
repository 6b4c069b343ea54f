// Package codec gives each script a typed request and a typed reply. Its files are named after the folders of internal/script, and each
// request is followed by the replies that it can get. One that also has a script for locks with several holders is in mutex.go. The headers
// of the scripts say what the fields mean.
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

// room returns an empty slice for the keys of a lock, flags and that many arguments.
func room(args int) []string { return make([]string, 0, maxKeys+1+args) }

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

// call makes a call of words, of which the first keys are keys.
func call(s driver.Script, words []string, keys int) driver.Call {
	return driver.Call{Script: s, Keys: words[:keys:keys], Args: words[keys:]}
}

// onKeys makes a call of a script that takes these keys, the flags, and args. It appends to keys.
func onKeys(s driver.Script, keys []string, f Flags, args ...string) driver.Call {
	return call(s, append(append(keys, string(f)), args...), len(keys))
}

// onLock makes a call of a script that takes all keys of the lock, the flags, and args.
func (l *Lock) onLock(s driver.Script, args ...string) driver.Call {
	return onKeys(s, l.Keys.appendAll(room(len(args))), l.Flags, args...)
}

// onNode makes a call of a script of nodes.
func (l *Lock) onNode(s driver.Script, args ...string) driver.Call {
	k := &l.Keys
	return onKeys(s, append(room(len(args)), k.Lock, k.Queue, k.Fence, k.CaughtUp, k.Mark), l.Flags, args...)
}

// byKey makes a call of a script that takes the lock's key only.
func (l *Lock) byKey(s driver.Script, args ...string) driver.Call {
	return onKeys(s, append(room(len(args)), l.Keys.Lock), l.Flags, args...)
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

func decimal(n int64) string   { return strconv.FormatInt(n, 10) }
func unsigned(n uint64) string { return strconv.FormatUint(n, 10) }

// milliseconds formats a duration for a script, rounded up, since a server counts whole ms.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// Head is the beginning of a reply.
type Head struct {
	Word Word
	Now  int64 // the server's time, µs
}

// Reply is the reply to most requests. Its word says which fields are set: the forms beside each request list them.
type Reply struct {
	Head
	Grant
	Refusal
	Fences         []uint64 // of several locks
	Count          int64    // what it counts depends on the word
	Since, Missing int64    // of a latch: which count, and how many parties ended without counting down
	Holder         *Holder  // a pointer, as are those below, since most replies have none
	Place          *Place   // of a waiter
	Run            *Run
	Text           string // Holder as the journal records it
}

// Rank returns the waiter's place in the queue, from 1; 0 if the reply names none.
func (r *Reply) Rank() int {
	if r.Place == nil {
		return 0
	}
	return r.Place.Rank
}

// Grant describes a grant.
type Grant struct {
	TTL   time.Duration // negative if the lock has no expiry
	Fence uint64        // the first of the reserved fences
	Block int64         // how many fences are reserved
}

// Refusal says why a server grants nothing now. It is zero if the server does grant.
type Refusal struct {
	// Quarantine is how long, in Strict mode, nothing will be granted. It belongs to Quarantined.
	Quarantine time.Duration
	// Stands is the caught-up mark of a node whose fence counter has to be raised first. It belongs to Behind.
	Stands string
}

// KeptData reports whether a node that is behind still has its data, though perhaps not the latest.
func (r Refusal) KeptData() bool { return strings.HasSuffix(r.Stands, "+") }

// Holder is the holder of a lock, or one of several.
type Holder struct {
	TTL     time.Duration // what is left; negative if the lock has no expiry
	Waiters int           // in the queue; of one of several holders 0
	Weight  int           // of one of several holders, as is Token
	Token   string
	Ours    bool       // Value is in this library's format; otherwise another program holds the lock
	Value   wire.Value // if Ours; of one of several holders in the form of a mutex's
}

// forms are the replies that a request can get: the word of each, and the fields after the server's time.
type forms []form

type form struct {
	word   Word
	fields []field
}

// field is what a reply says in one place.
type field byte

const (
	ttl       field = iota // Grant.TTL
	fence                  // Grant.Fence
	block                  // Grant.Block
	fences                 // Fences
	reserved               // Grant.Fence and Grant.Block, which are 0 if no fences were reserved
	rest                   // Refusal.Quarantine
	stands                 // Refusal.Stands
	count                  // Count, at most MaxInt32
	some                   // Count, which is not 0
	counter                // Count of any size
	began                  // Since
	missing                // Missing
	holder                 // Holder
	place                  // Place
	foreign                // Place.Foreign
	nextPlace              // Place, or nothing
	ended                  // Grant.Fence and, on a line of their own, Holder and Text
	lastRun                // Run
	completed              // Run.Completed and Run.Try
)

// parse reads a reply in one of these forms.
func (all forms) parse(text string) (Reply, error) {
	r := begin(text)
	reply := Reply{Head: r.Head}
	if at := slices.IndexFunc(all, func(f form) bool { return f.word == r.Word }); at >= 0 {
		r.read(&reply, all[at].fields...)
	} else {
		r.bad = true
	}
	return finish(&r, reply)
}

// simple is a request whose reply has one of a few forms.
type simple struct {
	call driver.Call
	forms
}

func (q simple) Call() driver.Call                { return q.call }
func (q simple) Parse(text string) (Reply, error) { return q.parse(text) }

// reader reads the fields of a reply from left to right. Once a field is malformed, bad is set and later results are meaningless.
type reader struct {
	Head
	rest string
	bad  bool
	err  error // the script's, or that of a malformed head
}

func begin(text string) reader {
	r, err := wire.ParseReply(text)
	return reader{Head: Head{Word(r.Word), r.Now}, rest: r.Rest, err: err}
}

// finish returns the reply. It is malformed if a field was, or if something was left unread.
func finish[R any](r *reader, reply R) (R, error) {
	err := r.err
	if err == nil && (r.bad || r.rest != "") {
		err = wire.ErrMalformed
	}
	if err != nil {
		reply = *new(R)
	}
	return reply, err
}

// read reads fields into the reply.
func (r *reader) read(to *Reply, fields ...field) {
	for _, f := range fields {
		switch f {
		case ttl:
			to.TTL = r.ttl()
		case fence:
			to.Fence = r.fence(1)
		case block:
			to.Block = r.number(1)
		case fences:
			for r.rest != "" && !r.bad {
				to.Fences = append(to.Fences, r.fence(1))
			}
		case reserved:
			to.Fence, to.Block = r.fence(0), r.number(0)
			r.bad = r.bad || to.Block > 0 && to.Fence == 0
		case rest:
			to.Quarantine = r.ttl()
		case stands:
			to.Stands = r.text()
		case count:
			to.Count = int64(r.count(0))
		case some:
			to.Count = int64(r.count(1))
		case counter:
			to.Count = r.number(0)
		case began:
			to.Since = r.number(1)
		case missing:
			to.Missing = int64(r.count(0))
		case holder:
			h := r.holder()
			to.Holder = &Holder{TTL: h.TTL, Waiters: h.Weight, Ours: h.Ours, Value: h.Value}
		case place:
			to.Place = r.place()
		case foreign:
			to.Place.Foreign = r.oneOf("foreign", "ours")
		case nextPlace:
			if r.rest != "" {
				to.Place = r.place()
			}
		case ended:
			to.Text = r.otherLines()
			to.Fence = r.fence(1)
			r.endLine()
			r.rest = to.Text
			h := r.holder()
			to.Holder = &h
			r.bad = r.bad || strings.Contains(to.Text, "\n")
		case lastRun:
			to.Run = r.lastRun()
		case completed:
			to.Run = &Run{Completed: r.number(1), Try: r.count(0)}
		}
	}
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

// maxDuration bounds durations from a server, which can exceed a time.Duration.
const maxDuration = 100 * 365 * 24 * time.Hour

// ttl reads the ms that are left. It returns the same for all negative numbers, which stand for no time.
func (r *reader) ttl() time.Duration {
	return time.Duration(min(max(r.number(math.MinInt64), -1), maxDuration.Milliseconds())) * time.Millisecond
}

// oneOf reads a field that must be one of two words, and reports whether it is the first.
func (r *reader) oneOf(word, other string) bool {
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

// otherLines takes away and returns everything after the first line.
func (r *reader) otherLines() (lines string) {
	r.rest, lines, _ = strings.Cut(r.rest, "\n")
	return lines
}

// endLine makes the reply malformed if something of the line was left unread.
func (r *reader) endLine() { r.bad = r.bad || r.rest != "" }

// holder reads how long a lock, or a holder's share of it, lasts; a number; and the lock's value.
func (r *reader) holder() Holder {
	h := Holder{TTL: r.ttl(), Weight: r.count(0)}
	value := r.all()
	h.Value, h.Ours = wire.ParseValue(value)
	h.Token = wire.TokenOf(value)
	return h
}
