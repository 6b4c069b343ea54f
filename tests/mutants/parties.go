package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// Latches and barriers.
var parties = []Mutant{
	{
		Name: "counted-again", About: "a count-down that is sent again counts again",
		Edits: []overlay.Edit{line("counted-before", "local known = false")},
		Tests: []Test{{"scripts", "TestLatch"}},
	},
	{
		Name: "counted-for-another", About: "a caller that has not joined a latch counts down in the place of a party that has",
		Edits:   []overlay.Edit{part("seats-taken", "seats > 0 and used >= seats", "false")},
		Tests:   []Test{{"scripts", "TestLatch"}},
		Subject: campaign.Latch{},
		Rules:   []campaign.Rule{campaign.Counted},
	},
	{
		Name: "opens-untold", About: "nobody is told that a latch is open",
		Edits:   []overlay.Edit{line("latch-opens", "if count < 0 then")},
		Tests:   []Test{{"scripts", "TestLatch"}},
		Subject: campaign.Latch{},
		Rules:   []campaign.Rule{campaign.Wakeup},
	},
	{
		Name: "dead-awaited", About: "a latch waits for ever for a party that died",
		Edits: []overlay.Edit{part("share-expired", "<= now", "<= now and kind ~= 'latch'")},
		Tests: []Test{{"scripts", "TestLatch"}},
	},
	{
		Name: "dead-counted", About: "a latch's party that died counts as one that has counted down",
		Edits: []overlay.Edit{line("count-missing", "if how == 'left' then")},
		Tests: []Test{{"scripts", "TestLatch"}},
	},
	{
		Name: "one-party-fewer", About: "a barrier lets its parties pass although one has not arrived",
		Edits:   []overlay.Edit{line("all-arrived", "if arrived < limit - 1 then")},
		Tests:   []Test{{"scripts", "TestBarrier"}},
		Subject: campaign.Barrier{},
		Rules:   []campaign.Rule{campaign.Phases},
	},
	{
		Name: "phase-stands", About: "a barrier's phase is not followed by another",
		Edits: []overlay.Edit{part("next-phase", "phase + 1", "phase")},
		Tests: []Test{{"scripts", "TestBarrier"}},
	},
	{
		Name: "arrives-at-every-look", About: "a barrier's party counts as often as it looks",
		Edits: []overlay.Edit{line("arrive-once", "if true then")},
		Tests: []Test{{"scripts", "TestBarrier"}},
	},
	{
		Name: "withdrawn-stays", About: "an arrival at a barrier that was given up counts",
		Edits: []overlay.Edit{line("withdraw", "arrived = arrived - 0")},
		Tests: []Test{{"scripts", "TestBarrier"}},
	},
	{
		Name: "dead-at-the-barrier", About: "a barrier's party that died keeps its place",
		Edits: []overlay.Edit{
			part("share-expired", "<= now", "<= now and kind ~= 'bar'"),
			line("outlast-shares", "if kind ~= 'bar' then"),
		},
		Tests: []Test{{"scripts", "TestBarrier"}},
	},
	{
		Name: "unbroken", About: "a party that leaves a barrier, or dies, does not break its phase",
		Edits:   []overlay.Edit{line("break-phase", "elseif kind == 'rab' then")},
		Tests:   []Test{{"scripts", "TestBarrier"}},
		Subject: campaign.Barrier{},
		Kinds:   []string{"process-killed", "cancelled-acquires"}, Rules: []campaign.Rule{campaign.Phases, campaign.Wakeup},
	},
}
