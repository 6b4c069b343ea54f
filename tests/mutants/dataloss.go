package mutants

import "github.com/holdfast-go/holdfast/tests/internal/overlay"

// Quarantine, and locks that are claimed again after the server lost its data.
var dataloss = []Mutant{
	{
		Name: "replicas-not-waited-for", About: "a quarantine is not longer if an earlier master may go on for a while",
		Edits: []overlay.Edit{part("replicas-wait", " + (others and replica_lag or 0)", "")},
		Tests: []Test{{"dataloss", "TestQuarantineIsLongerWhereThereAreReplicas"}},
	},
	{
		Name: "quarantine-not-lengthened", About: "a quarantine is not lengthened for a client whose leases can last longer",
		Edits: []overlay.Edit{line("quarantine-lengthened", "ready = ready")},
		Tests: []Test{{"dataloss", "TestAQuarantineIsLengthenedForLongerLeases"}},
	},
	{
		Name: "shared-key-reasserted", About: "a shared key is claimed again after the server has lost its data",
		Edits: []overlay.Edit{part("shared-key-lost", "!h.l.Set.Kind.Reasserted", "h.l.Set.Kind.IsShared")},
		Tests: []Test{{"virtual", "TestASharedKeyIsNotTakenAgainAfterALossOfData"}},
	},
	{
		Name: "reasserted-past-another", About: "a holder claims its lock again after a loss of data unless the counter is above its fence",
		Edits: []overlay.Edit{line("had-between", "local later = fence")},
		Tests: []Test{{"dataloss", "TestAHolderAfterWhomTheClockWentBack"}, {"dataloss", "TestAHolderWhoseFenceLedTheClock"}, {"dataloss", "TestAHolderWhoseNextServersClockIsSlow"}},
	},
	{
		Name: "reasserted-late", About: "the age of a grant is counted back from when the request to have the lock again arrives",
		Edits: []overlay.Edit{line("had-between", "local later = math.min(fence, granted_at, now - age)")},
		Tests: []Test{{"dataloss", "TestAReassertionThatTakesLongToArrive"}},
	},
	{
		Name: "reasserted-within-a-ms", About: "a holder claims its lock again after a grant in the ms of its own",
		Edits: []overlay.Edit{line("had-in-the-same-ms", "return id and fence_of(id) >= later")},
		Tests: []Test{{"scripts", "TestScripts"}},
	},
	{
		Name: "reasserted-by-another-clock", About: "a holder claims its lock again from a server whose clock is behind that of the server that reported the loss",
		Edits: []overlay.Edit{line("clock-behind", "if false then")},
		Tests: []Test{{"scripts", "TestScripts"}},
	},
	{
		Name: "fences-from-before", About: "fences that were reserved before a loss of data are granted after it",
		Edits: []overlay.Edit{part("block-from-before", "h.reassertions == reassertions", "reassertions == h.reassertions || true")},
		Tests: []Test{{"virtual", "TestFencesThatWereReservedBeforeALossAreNotUsed"}},
	},
}
