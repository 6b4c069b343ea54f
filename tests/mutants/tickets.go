package mutants

import "github.com/holdfast-go/holdfast/tests/internal/overlay"

// Locks that another process adopts.
var tickets = []Mutant{
	{
		Name: "adopts-anybodys", About: "a ticket is good for the lock, whoever has that by now",
		Edits: []overlay.Edit{line("adopt-compare", "if false then")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-twice", About: "whoever adopts a lock has it under the ticket's token, which others have, too",
		Edits: []overlay.Edit{line("adopt-swap", "write_lock(detached, value, pttl)")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adoption-not-idempotent", About: "an adoption that is sent again does not know its own lock",
		Edits: []overlay.Edit{line("adopt-own", "if false then")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-after-giving-up", About: "an adoption that was given up is carried out when it comes late",
		Edits: []overlay.Edit{line("adopt-given-up", "if false then")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-too-late", About: "an adoption is carried out after its not-after",
		Edits: []overlay.Edit{line("adopt-late", "if false then")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adoption-shortens", About: "a lock lasts for less after it is adopted than before",
		Edits: []overlay.Edit{line("adopt-expiry", "local pttl = ttl")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-fence-kept", About: "whoever adopts a lock has the fence of the holder before",
		Edits: []overlay.Edit{line("adopt-fence", "local fence = tonumber(ARGV[7])")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "ticket-without-tombstone", About: "a ticket's token can acquire again once its lock was adopted",
		Edits: []overlay.Edit{line("adopt-tombstone", "")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adoption-unmarks", About: "a lock that is adopted is not marked any more, so that its release does not look at the queue",
		Edits: []overlay.Edit{line("adopt-mark", "local marked = false")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-in-quarantine", About: "a lock is adopted although another may hold what it became",
		Edits: []overlay.Edit{line("adopt-quarantined", "if false then")},
		Tests: []Test{{"scripts", "TestNothingIsAdoptedInQuarantine"}},
	},
}
