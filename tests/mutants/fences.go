package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// The fence counter.
var fences = []Mutant{
	{
		Name: "one-fence", About: "every grant has the same fence",
		Edits: []overlay.Edit{
			line("minted", "return 5, n"),
			line("lone-taken", "return 'taken ' .. at .. ' 5'"),
			line("short-release", "if false then"),
		},
		Tests: []Test{{"scripts", "TestScripts"}},
		Rules: []campaign.Rule{campaign.Fences, campaign.StaleWrite},
	},
	{
		Name: "fence-without-floor", About: "fences begin anew when the counter is lost",
		Edits: []overlay.Edit{
			line("fence-floor", "fence = fence + 1"),
			part("lone-fence", "= at,", "= '1',"),
			part("lone-counter", "last and (", "last and (true or "),
			line("lone-next-fence", "fence = string.format('%d', tonumber(last) + 1)"),
			line("short-release", "if false then"),
		},
		Tests: []Test{{"scripts", "TestScripts"}},
	},
	{
		Name: "counter-expires", About: "the fence counter of all locks expires",
		Edits: []overlay.Edit{
			part("counter-stays", "whole(fence)", "whole(fence), 'EX', 86400"),
			part("lone-counter-stays", "fence)", "fence, 'EX', 86400)"),
		},
		Tests: []Test{{"virtual", "TestTheFenceCounterStays"}},
	},
	{
		Name: "lone-counter-expires", About: "the fence counter of all locks expires after the grant of a single one",
		Edits: []overlay.Edit{part("lone-counter-stays", "fence)", "fence, 'EX', 86400)")},
		Tests: []Test{{"virtual", "TestTheFenceCounterStays"}},
	},
	{
		Name: "fences-beyond-belief", About: "fences follow a counter that somebody has set to far ahead of the clock",
		Edits: []overlay.Edit{line("fence-believed", "if false {"), line("counter-believed", "if false then")},
		Tests: []Test{{"behaviour", "TestACounterThatSomebodyHasSet"}, {"virtual", "TestFencesBeyondBelief"}},
	},
}
