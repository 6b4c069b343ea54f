package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// nextOfLast is the id after the last one of a counter, whatever the time.
const nextOfLast = "string.gsub((redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', '1')[1] or {'0-0'})[1], '%d+$', function(n) return n + 1 end)"

// The fence counter.
var fences = []Mutant{
	{
		Name: "one-fence", About: "every grant has the same fence",
		Edits: []overlay.Edit{
			line("minted", "return 5, n"),
			line("short-release", "if false then"),
		},
		Tests: []Test{{"scripts", "TestScripts"}},
		Rules: []campaign.Rule{campaign.Fences, campaign.StaleWrite},
	},
	{
		Name: "fence-without-floor", About: "fences begin anew when the counter is lost",
		Edits: []overlay.Edit{
			part("fence-floor", "'*'", nextOfLast), part("short-fence", "'*'", nextOfLast),
		},
		Tests: []Test{{"scripts", "TestScripts"}},
	},
	{
		Name: "fence-of-another-ms", About: "more than a thousand fences within a ms repeat those of the next",
		Edits: []overlay.Edit{line("fence-within-ms", "if false then")},
		Tests: []Test{{"scripts", "TestScripts"}},
	},
	{
		Name: "counter-expires", About: "the fence counter of all locks expires",
		Edits: []overlay.Edit{insert("counter-stays", "redis.call('EXPIRE', KEYS[3], 86400)")},
		Tests: []Test{{"virtual", "TestTheFenceCounterStays"}},
	},
	{
		Name: "short-counter-expires", About: "the fence counter of all locks expires after a grant in a short way",
		Edits: []overlay.Edit{insert("short-fence-believed", "redis.call('EXPIRE', KEYS[3], 86400)")},
		Tests: []Test{{"virtual", "TestTheFenceCounterStays"}},
	},
	{
		Name: "fences-overflow", About: "a fence of more than 64 bits counts as a low one",
		Edits: []overlay.Edit{part("fence-fits", "min(call.Fence.Ms, 1<<50)", "call.Fence.Ms")},
		Tests: []Test{{"behaviour", "TestACounterThatSomebodyHasSet"}},
	},
	{
		Name: "fences-beyond-belief", About: "fences follow a counter that somebody has set to far ahead of the clock",
		Edits: []overlay.Edit{line("fence-believed", "if false {"), line("counter-believed", "if false then"), part("short-fence-believed", "ms * 1000 - now < 86400000000 and ", "")},
		Tests: []Test{{"behaviour", "TestACounterThatSomebodyHasSet"}, {"virtual", "TestFencesBeyondBelief"}},
	},
}
