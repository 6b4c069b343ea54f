package codec

import "strings"

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
	Gone        Word = "gone"
	Granted     Word = "granted"
	Held        Word = "held"
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
	WaitsAre    Word = "waits"
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
