package mutants

// Locks that an operator breaks.
var breaks = []Mutant{
	mutant("breaks-anybodys", "a break takes the lock from whoever has it by now",
		by("scripts.TestBreak"), line("break-compare", "")),
	mutant("breaks-anybodys-permit", "a break takes a lock from anybody who holds it",
		by("scripts.TestShareBreak"), line("share-break-compare", "local hold = live(redis.call('HGET', KEYS[1], hold_token))")),
	mutant("broken-fence-kept", "a break does not raise the fence",
		by("scripts.TestBreak"), line("break-raise", "local raised = tonumber(fence)")),
	mutant("broken-without-tombstone", "a late acquire of the broken holder's token takes the lock again",
		by("scripts.TestBreak"), line("break-tombstone", "")),
	mutant("break-not-idempotent", "a repeated break does not recognize what it has done",
		by("scripts.TestBreak"), line("break-once", "local reply = nil")),
	mutant("broken-unrecorded", "a break begins although the journal cannot be written",
		by("scripts.TestBreakWithoutAJournal"), line("break-journal-first", "")),
	mutant("journal-out-of-order", "an entry of the journal is scored by a clock that went back, and cut off first",
		by("scripts.TestJournal"), line("journal-order", "local score = now")),
	mutant("early-notice-dropped", "a notice that comes before the answer that grants the lock is forgotten",
		by("virtual.TestANoticeBeforeTheGrantIsNotLost"), line("notice-before-grant", "if false {")),
	mutant("break-unheeded", "a holder takes no notice of a break",
		by("behaviour.TestBreak"), line("heed-break", "if false {")),
	mutant("notice-believed", "a message that anybody can publish ends a lease",
		by("behaviour.TestANoticeAloneEndsNoLease"),
		line("notice-only-asks", "h.lose(&lock.LostError{Name: h.l.Name(), Reason: lock.LossBroken})")),
}
