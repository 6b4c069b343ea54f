package mutants

import "github.com/holdfast-go/holdfast/tests/internal/campaign"

// The fence counter.
var fences = []Mutant{
	mutant("one-fence", "every grant has the same fence",
		by("scripts.TestScripts"), line("minted", "return 5, n"), line("short-release", "if false then")).
		hunted(nil, nil, campaign.Fences, campaign.StaleWrite),
	mutant("fence-without-floor", "fences begin anew when the counter is lost",
		by("scripts.TestScripts"), part("fence-floor", "'*'", nextOfLast), part("short-fence", "'*'", nextOfLast)),
	mutant("fence-of-another-ms", "more than a thousand fences within a ms repeat those of the next",
		by("scripts.TestScripts"), line("fence-within-ms", "if false then")),
	mutant("counter-expires", "the fence counter of all locks expires",
		by("virtual.TestTheFenceCounterStays"), insert("counter-stays", "redis.call('EXPIRE', KEYS[3], 86400)")),
	mutant("short-counter-expires", "the fence counter of all locks expires after a grant in a short way",
		by("virtual.TestTheFenceCounterStays"), insert("short-fence-believed", "redis.call('EXPIRE', KEYS[3], 86400)")),
	mutant("fences-overflow", "a fence of more than 64 bits counts as a low one",
		by("behaviour.TestACounterThatSomebodyHasSet"), part("fence-fits", "min(call.Fence.Ms, 1<<50)", "call.Fence.Ms")),
	mutant("fences-beyond-belief", "fences follow a counter that somebody has set to far ahead of the clock",
		by("behaviour.TestACounterThatSomebodyHasSet", "virtual.TestFencesBeyondBelief"), line("fence-believed", "if false {"),
		line("counter-believed", "if false then"), part("short-fence-believed", "ms * 1000 - now < 86400000000 and ", "")),
}
