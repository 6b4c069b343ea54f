package mutants

import "github.com/holdfast-go/holdfast/tests/internal/overlay"

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
		Edits: []overlay.Edit{line("adopt-given-up", "if false then")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-too-late", About: "an adoption is carried out after its not-after",
		Edits: []overlay.Edit{line("adopt-late", "if false then")},
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
		Edits: []overlay.Edit{line("adopt-quarantined", "if false then")},
		Tests: []Test{{"scripts", "TestNothingIsAdoptedInQuarantine"}},
	},
}
