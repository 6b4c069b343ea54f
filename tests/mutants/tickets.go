package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// Locks that another process adopts.
var tickets = []Mutant{
	{
		Name: "adopts-anybodys", About: "a ticket is valid whoever has the lock by now",
		Edits: []overlay.Edit{line("adopt-compare", "if false then")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-twice", About: "an adopted lock keeps the ticket's token, which others have, too",
		Edits: []overlay.Edit{line("adopt-swap", "write_lock(detached, value, pttl)")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adoption-not-idempotent", About: "a repeated adoption does not recognize its own lock",
		Edits: []overlay.Edit{line("adopt-own", "if false then")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-after-giving-up", About: "an adoption that was given up is carried out if it comes late",
		Edits: []overlay.Edit{line("adopt-given-up", "")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-too-late", About: "an adoption is carried out after its not-after",
		Edits: []overlay.Edit{line("adopt-late", "")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adoption-shortens", About: "an adoption shortens the time that a lock lasts",
		Edits: []overlay.Edit{line("adopt-expiry", "local pttl = ttl")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-fence-kept", About: "an adopted lock keeps the fence of its earlier holder",
		Edits: []overlay.Edit{line("adopt-fence", "local fence = tonumber(ARGV[7])")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "ticket-without-tombstone", About: "a ticket's token can acquire again after the adoption",
		Edits: []overlay.Edit{line("adopt-tombstone", "")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adoption-unmarks", About: "an adopted lock loses its mark, so its release does not check the queue",
		Edits: []overlay.Edit{line("adopt-mark", "local marked = false")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-in-quarantine", About: "a lock is adopted in quarantine, when another process may hold it",
		Edits: []overlay.Edit{line("adopt-quarantined", "")},
		Tests: []Test{{"scripts", "TestNothingIsAdoptedInQuarantine"}},
	},
	{
		Name: "ticket-is-token", About: "an adopter goes on under the ticket's token: all who have it believe in the lock",
		Edits: []overlay.Edit{part("adopt-request", "Token: a.Token()", "Token: t.Token")},
		Tests: []Test{{"behaviour", "TestOneOfManyAdopts"}, {"behaviour", "TestALockIsCarriedToAnotherProcess"}},
	},
	{
		Name: "adopter-believes-old-fence", About: "an adopted lease has the fence of the ticket",
		Edits:   []overlay.Edit{part("adopted-fence", "r.Reply.Fence", "t.Fence")},
		Tests:   []Test{{"virtual", "TestALeaseThatWasPassedOnIsDetached"}},
		Subject: campaign.Carried{}, Rules: []campaign.Rule{campaign.Fences},
	},
	{
		Name: "detached-and-held", About: "a detached lease is believed in",
		Edits: []overlay.Edit{line("detach-ends", "")},
		Tests: []Test{{"behaviour", "TestALockIsCarriedToAnotherProcess"}},
	},
	{
		Name: "detached-and-renewed", About: "a detached lease is renewed",
		Edits: []overlay.Edit{line("detach-stops", "")},
		Tests: []Test{{"virtual", "TestADetachedLeaseIsLeftAlone"}},
	},
	{
		Name: "detaching-goes-on", About: "a lease is shared and renewed while it is being detached",
		Edits: []overlay.Edit{line("detach-freezes", "")},
		Tests: []Test{{"virtual", "TestALeaseIsDetachedOnce"}},
	},
	{
		Name: "nested-and-detached", About: "a lease is detached while others are nested in it",
		Edits: []overlay.Edit{line("detach-nested", "case false:")},
		Tests: []Test{{"behaviour", "TestWhatCannotBeDetached"}},
	},
	{
		Name: "job-and-term-detached", About: "the lease of a job or of a term is detached",
		Edits: []overlay.Edit{line("detach-apart", "return s.Kind.carried")},
		Tests: []Test{{"behaviour", "TestWhatCannotBeDetached"}},
	},
	{
		Name: "detached-too-late", About: "a lease is detached after its deadline",
		Edits: []overlay.Edit{line("detached-lost", "")},
		Tests: []Test{{"virtual", "TestALeaseThatIsDetachedInASuspension"}},
	},
	{
		Name: "detach-gives-up-renewals", About: "a lease that could not be detached is not renewed any more",
		Edits: []overlay.Edit{line("undone-renewed", "if false {")},
		Tests: []Test{{"virtual", "TestALeaseThatCannotBeDetachedGoesOn"}},
	},
	{
		Name: "late-message-releases-ticket", About: "a message that granted a lock releases it after it was detached",
		Edits: []overlay.Edit{line("detached-message", "")},
		Tests: []Test{{"virtual", "TestALateMessageDoesNotReleaseADetachedLock"}},
	},
	{
		Name: "ticket-of-latest-fence", About: "a ticket has the fence of the latest lease, not that of the lock's value",
		Edits: []overlay.Edit{part("ticket-fence", "h.first.fence, ", "l.fence, ")},
		Tests: []Test{{"virtual", "TestALeaseThatWasPassedOnIsDetached"}},
	},
	{
		Name: "ticket-forgets-unanswered", About: "a ticket does not say that an acquire of its token may still come",
		Edits: []overlay.Edit{part("ticket-tombstone", "== 0", ">= 0")},
		Tests: []Test{{"virtual", "TestALateAcquireOfADetachedLock"}},
	},
	{
		Name: "ticket-expires-before-late-acquire", About: "a lock is free again before a late acquire of its ticket's token has come",
		Edits: []overlay.Edit{part("detach-term", ", h.l.c.untilTombstone(h.l, h.attempt.unanswered))", ")")},
		Tests: []Test{{"virtual", "TestALateAcquireOfADetachedLock"}},
	},
	{
		Name: "spent-ticket-comes-back", About: "a late acquire brings a deleted lock back to a ticket that was given up",
		Edits: []overlay.Edit{line("spent-ticket", "if false {")},
		Tests: []Test{{"virtual", "TestALateAcquireOfADetachedLock"}},
	},
	{
		Name: "adoption-kept", About: "an adoption that its caller has given up is kept",
		Edits: []overlay.Edit{line("adoption-taken-back", "")},
		Tests: []Test{{"virtual", "TestAnAdoptionThatIsGivenUp"}},
	},
	{
		Name: "adoption-thought-unsent", About: "an adoption that went unanswered is taken for one that was not carried out",
		Edits: []overlay.Edit{line("adoption-unanswered", "_ = unanswered")},
		Tests: []Test{{"virtual", "TestAnAdoptionThatIsGivenUp"}},
	},
	{
		Name: "adopted-beside-earlier-lease", About: "a process believes in an earlier lease of a lock that it has adopted",
		Edits: []overlay.Edit{line("adopted-noted", "return h.firstLease(), nil")},
		Tests: []Test{{"virtual", "TestAnAdoptionEndsAnEarlierLease"}},
	},
	{
		Name: "foreign-ticket", About: "a ticket for another prefix is taken for the lock of the same name",
		Edits: []overlay.Edit{line("ticket-prefix", "case false:")},
		Tests: []Test{{"../", "TestTicketsThatAreNone"}},
	},
	{
		Name: "ticket-not-extended", About: "a ticket is extended by less than was said",
		Edits: []overlay.Edit{part("extend-ticket", "TTL: ttl", "TTL: time.Millisecond")},
		Tests: []Test{{"behaviour", "TestTicketsExpire"}},
	},
}
