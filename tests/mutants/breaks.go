package mutants

import "github.com/holdfast-go/holdfast/tests/internal/overlay"

// Locks that an operator breaks.
var breaks = []Mutant{
	{
		Name: "breaks-anybodys", About: "a break takes the lock from whoever has it by now",
		Edits: []overlay.Edit{line("break-compare", "")},
		Tests: []Test{{"scripts", "TestBreak"}},
	},
	{
		Name: "breaks-anybodys-permit", About: "a break takes a lock from anybody who holds it",
		Edits: []overlay.Edit{line("share-break-compare", "local hold = live(redis.call('HGET', KEYS[1], hold_token))")},
		Tests: []Test{{"scripts", "TestShareBreak"}},
	},
	{
		Name: "broken-fence-kept", About: "a break does not raise the fence",
		Edits: []overlay.Edit{line("break-raise", "local raised = tonumber(fence)")},
		Tests: []Test{{"scripts", "TestBreak"}},
	},
	{
		Name: "broken-without-tombstone", About: "a late acquire of the broken holder's token takes the lock again",
		Edits: []overlay.Edit{line("break-tombstone", "")},
		Tests: []Test{{"scripts", "TestBreak"}},
	},
	{
		Name: "break-not-idempotent", About: "a repeated break does not recognize what it has done",
		Edits: []overlay.Edit{line("break-once", "local reply = nil")},
		Tests: []Test{{"scripts", "TestBreak"}},
	},
	{
		Name: "broken-unrecorded", About: "a break begins although the journal cannot be written",
		Edits: []overlay.Edit{line("break-journal-first", "")},
		Tests: []Test{{"scripts", "TestBreakWithoutAJournal"}},
	},
	{
		Name: "journal-out-of-order", About: "an entry of the journal is scored by a clock that went back, and cut off first",
		Edits: []overlay.Edit{line("journal-order", "local score = now")},
		Tests: []Test{{"scripts", "TestJournal"}},
	},
	{
		Name: "early-notice-dropped", About: "a notice that comes before the answer that grants the lock is forgotten",
		Edits: []overlay.Edit{line("notice-before-grant", "if false {")},
		Tests: []Test{{"virtual", "TestANoticeBeforeTheGrantIsNotLost"}},
	},
	{
		Name: "break-unheeded", About: "a holder takes no notice of a break",
		Edits: []overlay.Edit{line("heed-break", "if false {")},
		Tests: []Test{{"behaviour", "TestBreak"}},
	},
	{
		Name: "notice-believed", About: "a message that anybody can publish ends a lease",
		Edits: []overlay.Edit{line("notice-only-asks", "h.lose(&lock.LostError{Name: h.l.Name(), Reason: lock.LossBroken})")},
		Tests: []Test{{"behaviour", "TestANoticeAloneEndsNoLease"}},
	},
}
