package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

var spreadTests = []Test{{"scripts", "TestSpreadBatchesDoWhatScriptsOfOneLockDo"}}

// Batches of acquires, renewals and releases.
var batches = []Mutant{
	{
		Name: "batch-barging", About: "a batch acquires a free lock although others queue for it",
		Edits: []overlay.Edit{part("batch-nobody-waits", ", KEYS[n + i]", ""), part("lone-free", ", KEYS[2]", "")},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "batch-takes-held", About: "a batch acquires locks without checking whether they are free",
		Edits: []overlay.Edit{
			line("batch-free", "local all = true"),
			part("batch-set", "'NX', ", ""),
			part("lone-free", "redis.call('EXISTS', KEYS[1], KEYS[2]) > 0", "false"),
		},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "batch-not-after", About: "a late batch acquires locks for callers that have given up",
		Edits: []overlay.Edit{
			line("batch-late", "if false then"),
			part("lone-free", "tonumber(at) >= tonumber(ARGV[2]) or ", ""),
			part("batch-failed", "notAfter", "0"),
			part("batch-unanswered", "notAfter", "0"),
		},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "batch-one-fence", About: "all grants of batches have one fence",
		Edits: []overlay.Edit{
			line("batch-mint", "fence, minted = 5, n"),
			line("lone-fence", "local fence = '5'"),
		},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "batch-fences-reversed", About: "the first lock of a batch has the fence that the server gave to the last",
		Edits: []overlay.Edit{part("fence-of-item", "(i)", "(len(items) - 1 - i)")},
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
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "batch-mark-ignored", About: "a batch deletes locks for which others wait",
		Edits: []overlay.Edit{part("batch-release-owner", " and string.sub(value, -1) ~= '+'", ""), byScript},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "spread-takes-waited", About: "a batch of several slots acquires a free lock although others queue for it",
		Edits: []overlay.Edit{part("spread-free", ", queue)", ")")}, Tests: spreadTests,
	},
	{
		Name: "spread-takes-held", About: "a batch of several slots acquires locks without checking whether they are free",
		Edits: []overlay.Edit{part("spread-free", "lock, queue", "queue")}, Tests: spreadTests,
	},
	{
		Name: "spread-fence-repeats", About: "a batch of several slots grants fences below earlier ones",
		Edits: []overlay.Edit{part("spread-fence", "short_fence(counter, at)", "short_fence(counter, at) and '1600000000000000'")}, Tests: spreadTests,
	},
	{
		Name: "spread-fence-forgotten", About: "a batch of several slots does not write down the fences that it grants",
		Edits: []overlay.Edit{insert("spread-fence", "try('DEL', counter) ")}, Tests: spreadTests,
	},
	{
		Name: "spread-not-after", About: "a late batch of several slots acquires locks for callers that have given up",
		Edits: []overlay.Edit{line("spread-late", "local late = false")}, Tests: spreadTests,
	},
	{
		Name: "spread-frees-anybodys", About: "a batch of several slots deletes locks without checking whose they are",
		Edits: []overlay.Edit{part("spread-release-owner", "string.find(value, ARGV[k + 1], 1, true) == 1 and ", "")}, Tests: spreadTests,
	},
	{
		Name: "spread-mark-ignored", About: "a batch of several slots deletes locks for which others wait",
		Edits: []overlay.Edit{part("spread-release-owner", " and string.sub(value, -1) ~= '+'", "")}, Tests: spreadTests,
	},
	{
		Name: "spread-renews-anybodys", About: "a batch of several slots renews locks without checking whose they are",
		Edits: []overlay.Edit{part("spread-renew-owner", " and string.find(value, ARGV[k + 1], 1, true) == 1", "")}, Tests: spreadTests,
	},
	{
		Name: "spread-shortens", About: "a renewal in a batch of several slots gives an expiry to a lock that had none",
		Edits: []overlay.Edit{part("spread-prolong", ", 'GT')", ")")}, Tests: spreadTests,
	},
	{
		Name: "spread-where-lost", About: "a batch of several slots goes to versions of Valkey that load what it wrote into wrong slots",
		Edits: []overlay.Edit{line("spread-version", "if false then")},
		Tests: []Test{{"scripts", "TestSpreadBatchesAreRefusedWhereTheyAreLost"}},
	},
	{
		Name: "spread-refused-renewed", About: "a lock for which the server refused a renewal in a batch of several slots counts as renewed",
		Edits: []overlay.Edit{line("spread-kept", "if kept ~= 1 and type(kept) ~= 'table' then")}, Tests: spreadTests,
	},
	{
		Name: "batch-unanswered-not-sent", About: "a batch that was not answered counts as not sent",
		Edits: []overlay.Edit{part("batch-failed", "exec.MayBeDone(item.err)", "false"), part("batch-unanswered", "true", "false")},
		Tests: []Test{{"virtual", "TestALateAcquireOfADetachedLock"}},
	},
	{
		Name: "late-reply", About: "a connection for a caller's own call is used again after a call that timed out, and its reply is the next call's",
		Edits: []overlay.Edit{part("late-reply", " && (err == nil || concernsOneCall(err))", "")},
		Tests: []Test{{"adapters", "TestALateReplyToALoneCallerIsNobodyElses"}},
	},
}
