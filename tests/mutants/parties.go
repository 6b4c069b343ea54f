package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// Latches and barriers.
var parties = []Mutant{
	{
		Name: "counted-again", About: "a count-down that is sent again counts again",
		Subject: campaign.Latch{},
		Edits:   []overlay.Edit{line("counted-before", "local known = false")},
		Kinds:   []string{"lost-reply"}, Rules: []campaign.Rule{campaign.Counted},
	},
	{
		Name: "counted-for-another", About: "a caller that has not joined a latch counts down in the place of a party that has",
		Subject: campaign.Latch{},
		Edits:   []overlay.Edit{part("seats-taken", "seats > 0 and used >= seats", "false")},
		Rules:   []campaign.Rule{campaign.Counted},
	},
	{
		Name: "opens-untold", About: "nobody is told that a latch is open",
		Subject: campaign.Latch{},
		Edits:   []overlay.Edit{line("latch-opens", "if count < 0 then")},
		Rules:   []campaign.Rule{campaign.Wakeup},
	},
	{
		Name: "dead-awaited", About: "a latch waits for ever for a party that died",
		Subject: campaign.Latch{},
		Edits:   []overlay.Edit{part("share-expired", "<= now", "<= now and kind ~= 'latch'")},
		Kinds:   []string{"process-killed"}, Rules: []campaign.Rule{campaign.Wakeup},
	},
	{
		Name: "dead-counted", About: "a latch's party that died counts as one that has counted down",
		Subject: campaign.Latch{},
		Edits:   []overlay.Edit{line("count-missing", "if how == 'left' then")},
		Kinds:   []string{"process-killed", "process-pause-long"}, Rules: []campaign.Rule{campaign.Counted},
	},
	{
		Name: "one-party-fewer", About: "a barrier lets its parties pass although one has not arrived",
		Subject: campaign.Barrier{},
		Edits:   []overlay.Edit{line("all-arrived", "if arrived < limit - 1 then")},
		Rules:   []campaign.Rule{campaign.Phases},
	},
	{
		Name: "phase-stands", About: "a barrier's phase is not followed by another",
		Subject: campaign.Barrier{},
		Edits:   []overlay.Edit{part("next-phase", "phase + 1", "phase")},
		Rules:   []campaign.Rule{campaign.Phases, campaign.Wakeup},
	},
	{
		Name: "arrives-at-every-look", About: "a barrier's party counts as often as it looks",
		Subject: campaign.Barrier{},
		Edits:   []overlay.Edit{line("arrive-once", "if true then")},
		Kinds:   []string{"lost-reply", "cut-subscriptions"}, Rules: []campaign.Rule{campaign.Phases},
	},
	{
		Name: "withdrawn-stays", About: "an arrival at a barrier that was given up counts",
		Subject: campaign.Barrier{},
		Edits:   []overlay.Edit{line("withdraw", "arrived = arrived - 0")},
		Kinds:   []string{"cancelled-acquires"}, Rules: []campaign.Rule{campaign.Phases},
	},
	{
		Name: "dead-at-the-barrier", About: "a barrier's party that died keeps its place",
		Subject: campaign.Barrier{},
		Edits: []overlay.Edit{
			part("share-expired", "<= now", "<= now and kind ~= 'bar'"),
			line("outlast-shares", "if kind ~= 'bar' then"),
		},
		Kinds: []string{"process-killed"}, Rules: []campaign.Rule{campaign.Wakeup},
	},
	{
		Name: "unbroken", About: "a party that leaves a barrier, or dies, does not break its phase",
		Subject: campaign.Barrier{},
		Edits:   []overlay.Edit{line("break-phase", "elseif kind == 'rab' then")},
		Kinds:   []string{"process-killed", "cancelled-acquires"}, Rules: []campaign.Rule{campaign.Phases, campaign.Wakeup},
	},
}
