package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// Batches of acquires, renewals and releases.
var batches = []Mutant{
	{
		Name: "batch-barging", About: "a batch acquires a free lock although others queue for it",
		Edits: []overlay.Edit{part("batch-nobody-waits", ", KEYS[n + i]", ""), part("lone-free", ", KEYS[2]", "")},
		Kinds: []string{"process-pause-long", "process-killed", "server-pause-long"}, Rules: []campaign.Rule{campaign.Order},
	},
	{
		Name: "batch-takes-held", About: "a batch acquires locks without checking whether they are free",
		Edits: []overlay.Edit{
			line("batch-free", "local all = true"),
			part("batch-set", "'NX', ", ""),
			part("lone-free", "redis.call('EXISTS', KEYS[1], KEYS[2]) > 0", "false"),
		},
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "batch-not-after", About: "a late batch acquires locks for callers that have given up",
		Edits: []overlay.Edit{
			line("batch-late", "if false then"),
			part("lone-free", "tonumber(at) >= tonumber(ARGV[2]) or ", ""),
			part("batch-failed", "notAfter", "0"),
			part("batch-unanswered", "notAfter", "0"),
		},
		Kinds: []string{"late-copy", "delayed-requests"}, Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup},
	},
	{
		Name: "batch-one-fence", About: "all grants of batches have one fence",
		Edits: []overlay.Edit{
			line("batch-mint", "fence, minted = 5, n"),
			line("lone-fence", "local fence, last = '5', false"),
		},
		Rules: []campaign.Rule{campaign.Fences, campaign.StaleWrite},
	},
	{
		Name: "batch-fences-reversed", About: "the first lock of a batch has the fence that the server gave to the last",
		Edits: []overlay.Edit{part("fence-of-item", "uint64(i)", "uint64(len(items)-1-i)")},
		Tests: []Test{{"virtual", "TestEachLockOfABatchHasItsOwnAnswer"}},
	},
	{
		Name: "second-left-taken", About: "only the first of the locks that a batch leaves counts as left",
		Edits: []overlay.Edit{line("next-left", "r.Left = nil")},
		Tests: []Test{{"virtual", "TestEachLockOfABatchHasItsOwnAnswer"}},
	},
	{
		Name: "batch-frees-anybodys", About: "a batch deletes locks without checking whose they are",
		Edits: []overlay.Edit{part("batch-release-owner", "string.find(value, ARGV[i], 1, true) == 1 and ", ""), byScript},
		Kinds: []string{"late-copy"}, Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "batch-mark-ignored", About: "a batch deletes locks for which others wait",
		Edits: []overlay.Edit{part("batch-release-owner", " and string.sub(value, -1) ~= '+'", ""), byScript},
		Rules: []campaign.Rule{campaign.Wakeup},
	},
	{
		Name: "batch-unanswered-not-sent", About: "a batch that was not answered counts as not sent",
		Edits: []overlay.Edit{part("batch-failed", "exec.MayBeDone(item.err)", "false"), part("batch-unanswered", "true", "false")},
		Kinds: []string{"cancelled-acquires", "late-copy", "delayed-requests", "lost-reply"}, Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup},
	},
}
