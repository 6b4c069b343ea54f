package codec

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Journal is the record of what operators did to holders.
type Journal struct {
	Key     string
	Channel string // announces new entries
}

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
	s := script.Break()
	if q.Lock.Keys.Holds != "" {
		s = script.ShareBreak()
	}
	words := q.Lock.Keys.appendOwn(make([]string, 0, maxKeys+8))
	if !strings.Contains(string(q.Lock.Flags), string(Cluster)) {
		words = append(words, q.Journal.Key)
	}
	if q.Lock.Keys.Mark != "" {
		words = append(words, q.Lock.Keys.Mark)
	}
	n := len(words)
	words = append(words, string(q.Lock.Flags), q.ID, q.Grant, decimal(q.NotAfter), q.Kind, q.Note, q.Journal.Channel)
	return urgent(call(s, words, n))
}

// BreakReply is the reply to Break. Its word says which fields are set:
//
//	Broken      Raised, Text, and Hold, whose token is cut down to the grant id
//	Changed     Holder, whose grant id is another
//	Free, Late  none
type BreakReply struct {
	Head
	Raised uint64 // the lock's fence since the break
	Hold   Hold   // the hold that the break ended
	Text   string // Hold as the journal records it
	Holder Holder
}

func (q *Break) Parse(text string) (BreakReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return BreakReply{}, err
	}
	reply := BreakReply{Head: head}
	switch head.Word {
	case Broken:
		r.rest, reply.Text, _ = strings.Cut(r.rest, "\n")
		reply.Raised = r.fence(1)
		r.bad = r.bad || r.rest != "" || strings.Contains(reply.Text, "\n")
		r.rest = reply.Text
		reply.Hold = r.hold()
	case Changed:
		reply.Holder = r.holder()
	case Free, Late:
	default:
		r.bad = true
	}
	return finish(&r, reply)
}

// What an operator did to a holder.
const (
	WasBroken  = "broken"
	WasRevoked = "revoked" // asked to let go
)

// Note writes an entry of the journal: note.lua.
type Note struct {
	Flags   Flags
	Journal Journal
	Entry   Entry
}

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
	Holder string // BreakReply.Text; "" if the lock was not broken

	// Set only in entries that were read:
	Time int64 // server time, µs
	Hold Hold  // parsed from Holder
}

func (q *Note) Call() driver.Call {
	e := &q.Entry
	return urgent(call(script.Note(), []string{
		q.Journal.Key, string(q.Flags), e.ID, q.Journal.Channel, e.What, e.Grant, unsigned(e.Fence), unsigned(e.Raised), e.Kind, e.Key, e.Note, e.Holder,
	}, 1))
}

// NoteReply says that the entry was written: Noted.
type NoteReply struct{ Head }

func (q *Note) Parse(text string) (NoteReply, error) {
	head, err := parseWord(text, Noted)
	return NoteReply{head}, err
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
	head, r, err := begin(text)
	if err != nil {
		return NotesReply{}, err
	}
	var lines string
	r.rest, lines, _ = strings.Cut(r.rest, "\n")
	r.bad = head.Word != NotesAre
	reply := NotesReply{Head: head, Seen: r.count(0)}
	if r.bad || r.rest != "" {
		return finish(&r, reply)
	}
	all := strings.Split(lines, "\n")
	if lines == "" {
		all = nil
	}
	r.bad = len(all)%4 != 0 || len(all)/4 > q.Count
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
		e.Hold = r.hold()
	}
	return e, !r.bad && wire.IsGrant(e.Grant) && e.Key != ""
}
