package codec

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// InitMode is what Init does.
type InitMode string

const (
	Admit      InitMode = ""  // admits a server without a mark
	AdmitKnown InitMode = "f" // admits any server, and ends a quarantine
	LookAtMark InitMode = "l" // asks whether there is a mark
)

// Init admits a server to Strict mode, or asks whether it was admitted: init.lua. The flags include Strict.
func Init(f Flags, mark string, mode InitMode) Request[Reply] {
	replies := forms{{Ready, nil}, {Quarantined, []field{rest}}}
	if mode == LookAtMark {
		replies = forms{{Known, nil}, {Unmarked, nil}}
	}
	return simple{onKeys(script.Init(), append(room(1), mark), Flags(mode)+f, ""), replies}
}

// Survey asks a server for the settings that decide whether locks are safe: survey.lua.
type Survey struct {
	Lock Lock
	Mark string // "" in a Cluster
}

func (q *Survey) Call() driver.Call { return urgent(q.Lock.byKey(script.Survey(), "", q.Mark)) }

// SurveyReply contains a server's settings: SettingsAre. Unknown settings are "" or 0.
type SurveyReply struct {
	Head
	MaxMemory uint64 // bytes; 0 for no limit
	Policy    string // maxmemory-policy
	Role      string // "master" or "slave"
	IsStrict  bool   // it was admitted to Strict mode
}

func (q *Survey) Parse(text string) (SurveyReply, error) {
	r := begin(text)
	told := func() string {
		if field := r.text(); field != "-" {
			return field
		}
		return ""
	}
	reply := SurveyReply{Head: r.Head}
	reply.MaxMemory, _ = strconv.ParseUint(told(), 10, 64)
	reply.Policy, reply.Role = told(), told()
	reply.IsStrict = r.oneOf("strict", "-")
	r.bad = r.bad || r.Word != SettingsAre
	return finish(&r, reply)
}

// What a lock's key holds, if that is not one of the kinds of locks with several holders.
const (
	HoldsNothing  = "nothing"
	HoldsMutex    = "mutex"
	HoldsRedisson = "redisson"
	HoldsForeign  = "foreign" // something that this library did not write
)

// Page is one of the pages of a long reply.
type Page struct{ Next string } // the cursor for the next page; "0" on the last

// IsLast reports whether this was the last page.
func (p Page) IsLast() bool { return p.Next == "0" }

// Status asks for a page of a lock's holders, and who waits for it: status.lua.
type Status struct {
	Lock    Lock
	Kind    string  // of the lock, as status.lua reports it; "" for any kind, and then Waiters is ignored, and a queue is not needed
	Others  []Queue // if the lock may be of other kinds, too
	Cursor  string  // "0", or Next of the previous reply
	Holds   int     // about how many holders to return
	Waiters int     // how many waiters to return at most
}

// Queue is the queue for locks of a kind.
type Queue struct{ Kind, Key string }

func (q *Status) Call() driver.Call {
	kinds, words := q.Kind, append(make([]string, 0, 8+len(q.Others)), q.Lock.Keys.Lock)
	if q.Lock.Keys.Queue != "" {
		words = append(words, q.Lock.Keys.Queue)
	}
	for _, other := range q.Others {
		words, kinds = append(words, other.Key), kinds+" "+other.Kind
	}
	return onKeys(script.Status(), words, q.Lock.Flags, "", kinds, q.Cursor, strconv.Itoa(q.Holds), strconv.Itoa(q.Waiters))
}

// StatusReply is a page of a lock's holders and, on the first page, its first waiters.
type StatusReply struct {
	Head
	Page
	// Kind is HoldsNothing, HoldsMutex, HoldsRedisson, a kind of lock with several holders, or HoldsForeign. With Others, the kind of a
	// free lock is that for which somebody waits.
	Kind    string
	Fence   uint64 // of the latest grant; 0 if only the holds contain it
	Limit   int    // of the sum of all weights; 0 if the server has no limit
	Count   int    // parties of a latch that have not counted down; -1 if the server has no count
	Queued  int    // how many wait
	Holds   []Holder
	Waiters []Waiter // the first ones
}

// Waiter is a waiter in a lock's queue.
type Waiter struct {
	Since  int64 // server time, µs
	Weight int   // 0 if the lock has one holder
	Info   wire.Info
}

// Parse reads the script's reply. It refuses more waiters than were asked for.
func (q *Status) Parse(text string) (StatusReply, error) {
	r := begin(text)
	lines := r.otherLines()
	reply := StatusReply{
		Head: r.Head, Kind: r.text(), Fence: r.fence(0), Limit: r.count(0), Count: r.count(-1), Queued: r.count(0), Page: Page{r.text()},
	}
	holds := r.count(0)
	r.bad = r.bad || r.Word != StatusIs
	r.endLine()
	for lines != "" && !r.bad {
		r.rest, lines, _ = strings.Cut(lines, "\n")
		switch {
		case len(reply.Holds) < holds:
			reply.Holds = append(reply.Holds, r.holder())
		case len(reply.Waiters) < q.Waiters:
			reply.Waiters = append(reply.Waiters, Waiter{min(r.number(0), wire.MaxTime), r.count(0), wire.ParseInfo(r.all())})
		default:
			r.bad = true
		}
	}
	r.bad = r.bad || len(reply.Holds) < holds || len(reply.Waiters) > reply.Queued
	return finish(&r, reply)
}

// Scan asks a server for a page of keys that may be those of locks: scan.lua.
type Scan struct {
	Flags  Flags
	On     string   // any key on the server
	Cursor string   // "0", or Next of the previous reply
	Count  int      // about how many keys to look at
	Match  string   // a pattern, as SCAN takes it
	Begin  []string // prefixes: wanted keys have one of these
}

func (q *Scan) Call() driver.Call {
	return call(script.Scan(), append([]string{q.On, string(q.Flags), "", q.Cursor, strconv.Itoa(q.Count), q.Match}, q.Begin...), 1)
}

// ScanReply is a page of a server's keys: KeysAre.
type ScanReply struct {
	Head
	Page
	Keys []string
}

func (q *Scan) Parse(text string) (ScanReply, error) {
	r := begin(text)
	lines := r.otherLines()
	reply := ScanReply{Head: r.Head, Page: Page{r.text()}}
	r.bad = r.bad || r.Word != KeysAre
	if lines != "" {
		reply.Keys = strings.Split(lines, "\n")
	}
	return finish(&r, reply)
}

// Journal is the record of what operators did to holders.
type Journal struct {
	Key     string
	Channel string // announces new entries
}

// What an operator did to a holder.
const (
	WasBroken  = "broken"
	WasRevoked = "revoked" // asked to let go
)

// Entry is an entry of the journal.
type Entry struct {
	What   string // WasBroken or WasRevoked
	ID     string
	Grant  string // the holder's
	Fence  uint64 // the holder's; 0 if unknown
	Raised uint64 // the lock's fence since the break; 0 if the lock was not broken
	Kind   string // of the lock, as in StatusReply
	Key    string // the lock's
	Note   string
	Holder string // Reply.Text; "" if the lock was not broken

	// Set only in entries that were read:
	Time int64  // server time, µs
	Hold Holder // parsed from Holder
}

// Note writes an entry of the journal: note.lua.
func Note(f Flags, j Journal, e *Entry) Request[Reply] {
	return simple{urgent(call(script.Note(), []string{
		j.Key, string(f), e.ID, j.Channel, e.What, e.Grant, unsigned(e.Fence), unsigned(e.Raised), e.Kind, e.Key, e.Note, e.Holder,
	}, 1)), forms{{Noted, nil}}}
}

// Notes asks for entries of the journal, latest first: notes.lua.
type Notes struct {
	Flags   Flags
	Journal Journal
	Skip    int // how many entries to skip
	Count   int // how many entries to look at, at most
}

func (q *Notes) Call() driver.Call {
	return call(script.Notes(), []string{q.Journal.Key, string(q.Flags), "", strconv.Itoa(q.Skip), strconv.Itoa(q.Count)}, 1)
}

// NotesReply has entries of the journal: NotesAre.
type NotesReply struct {
	Head
	Seen    int // how many entries were looked at: fewer than Count if there are no more
	Entries []Entry
}

// Parse reads the script's reply. It skips entries that it cannot read, which another program may have written.
func (q *Notes) Parse(text string) (NotesReply, error) {
	r := begin(text)
	lines := r.otherLines()
	reply := NotesReply{Head: r.Head, Seen: r.count(0)}
	r.bad = r.bad || r.Word != NotesAre
	r.endLine()
	if lines == "" {
		return finish(&r, reply)
	}
	all := strings.Split(lines, "\n")
	r.bad = r.bad || len(all)%4 != 0 || len(all)/4 > q.Count
	for ; len(all) >= 4 && !r.bad; all = all[4:] {
		if e, ok := parseEntry(all[0], all[1], all[2], all[3]); ok {
			reply.Entries = append(reply.Entries, e)
		}
	}
	return finish(&r, reply)
}

func parseEntry(at, head, note, holder string) (Entry, bool) {
	r := reader{rest: at}
	e := Entry{Time: r.number(0), Note: note, Holder: holder}
	r.rest = head
	r.bad = r.bad || r.field() != "hf2"
	e.What, e.ID, e.Grant, e.Fence, e.Raised, e.Kind, e.Key = r.text(), r.text(), r.text(), r.fence(0), r.fence(0), r.text(), r.all()
	if holder != "" {
		r.rest = holder
		e.Hold = r.holder()
	}
	return e, !r.bad && wire.IsGrant(e.Grant) && e.Key != ""
}

// Announce makes watchers of a lock look who holds it: announce.lua. The count is that of connections that were told.
func Announce(l Lock, channel string) Request[Reply] {
	return simple{urgent(l.byKey(script.Announce(), "", channel)), forms{{Told, []field{count}}}}
}

// Waits asks for what the holder of a grant waits, and perhaps says so: waits.lua.
type Waits struct {
	Lock     Lock // the grant's waits in place of a lock
	ID, Text string
}

func (q *Waits) Call() driver.Call { return urgent(q.Lock.byKey(script.Waits(), "", q.ID, q.Text)) }

// WaitsReply has the texts of a grant's waits: WaitsAre.
type WaitsReply struct {
	Head
	Texts []string
}

func (q *Waits) Parse(text string) (WaitsReply, error) {
	r := begin(text)
	lines := r.otherLines()
	reply := WaitsReply{Head: r.Head}
	n := r.count(0)
	if lines != "" {
		reply.Texts = strings.Split(lines, "\n")
	}
	r.bad = r.bad || r.Word != WaitsAre || len(reply.Texts) != n
	return finish(&r, reply)
}
