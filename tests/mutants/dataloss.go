package mutants

// Quarantine, and locks that are claimed again after the server lost its data.
var dataloss = []Mutant{
	mutant("replicas-not-waited-for", "a quarantine is not longer if an earlier master may go on for a while",
		by("dataloss.TestQuarantineIsLongerWhereThereAreReplicas"), part("replicas-wait", " + (others and replica_lag or 0)", "")),
	mutant("quarantine-not-lengthened", "a quarantine is not lengthened for a client whose leases can last longer",
		by("dataloss.TestAQuarantineIsLengthenedForLongerLeases"), line("quarantine-lengthened", "ready = ready")),
	mutant("shared-key-reasserted", "a shared key is claimed again after the server has lost its data",
		by("virtual.TestASharedKeyIsNotTakenAgainAfterALossOfData"),
		part("shared-key-lost", "!h.l.Set.Kind.Reasserted", "h.l.Set.Kind.IsShared")),
	mutant("reasserted-past-another", "a holder claims its lock again after a loss of data unless the counter is above its fence",
		by("dataloss.TestAHolderAfterWhomTheClockWentBack", "dataloss.TestAHolderWhoseFenceLedTheClock", "dataloss.TestAHolderWhoseNextServersClockIsSlow"),
		line("had-between", "local later = fence")),
	mutant("reasserted-late", "the age of a grant is counted back from when the request to have the lock again arrives",
		by("dataloss.TestAReassertionThatTakesLongToArrive"), line("had-between", "local later = math.min(fence, granted_at, now - age)")),
	mutant("reasserted-within-a-ms", "a holder claims its lock again after a grant in the ms of its own",
		by("scripts.TestScripts"), line("had-in-the-same-ms", "return id and fence_of(id) >= later")),
	mutant("reasserted-by-another-clock",
		"a holder claims its lock again from a server whose clock is behind that of the server that reported the loss",
		by("scripts.TestScripts"), line("clock-behind", "if false then")),
	mutant("fences-from-before", "fences that were reserved before a loss of data are granted after it",
		by("virtual.TestFencesThatWereReservedBeforeALossAreNotUsed"),
		part("block-from-before", "h.reassertions == reassertions", "reassertions == h.reassertions || true")),
}
