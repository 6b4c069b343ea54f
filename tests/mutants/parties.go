package mutants

import "github.com/holdfast-go/holdfast/tests/internal/campaign"

// Latches and barriers.
var parties = []Mutant{
	mutant("counted-again", "a count-down that is sent again counts again",
		by("scripts.TestLatch"), line("counted-before", "local known = false")),
	mutant("counted-for-another", "a caller that has not joined a latch counts down in the place of a party that has",
		by("scripts.TestLatch"), part("seats-taken", "seats > 0 and used >= seats", "false")).
		hunted(campaign.Latch{}, nil, campaign.Counted),
	mutant("opens-untold", "nobody is told that a latch is open",
		by("scripts.TestLatch"), line("latch-opens", "if count < 0 then")).hunted(campaign.Latch{}, nil, campaign.Wakeup),
	mutant("dead-awaited", "a latch waits for ever for a party that died",
		by("scripts.TestLatch"), part("share-expired", "<= now", "<= now and kind ~= 'latch'")),
	mutant("dead-counted", "a latch's party that died counts as one that has counted down",
		by("scripts.TestLatch"), line("count-missing", "if how == 'left' then")),
	mutant("one-party-fewer", "a barrier lets its parties pass although one has not arrived",
		by("scripts.TestBarrier"), line("all-arrived", "if arrived < limit - 1 then")).hunted(campaign.Barrier{}, nil, campaign.Phases),
	mutant("phase-stands", "a barrier's phase is not followed by another",
		by("scripts.TestBarrier"), part("next-phase", "phase + 1", "phase")),
	mutant("arrives-at-every-look", "a barrier's party counts as often as it looks",
		by("scripts.TestBarrier"), line("arrive-once", "if true then")),
	mutant("withdrawn-stays", "an arrival at a barrier that was given up counts",
		by("scripts.TestBarrier"), line("withdraw", "arrived = arrived - 0")),
	mutant("dead-at-the-barrier", "a barrier's party that died keeps its place",
		by("scripts.TestBarrier"), part("share-expired", "<= now", "<= now and kind ~= 'bar'"),
		line("outlast-shares", "if kind ~= 'bar' then")),
	mutant("unbroken", "a party that leaves a barrier, or dies, does not break its phase",
		by("scripts.TestBarrier"), line("break-phase", "elseif kind == 'rab' then")).
		hunted(campaign.Barrier{}, []string{"process-killed", "cancelled-acquires"}, campaign.Phases, campaign.Wakeup),
}
