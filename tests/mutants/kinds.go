package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// Locks in Redisson's form, multi-locks, jobs and elections.
var kinds = []Mutant{
	{
		Name: "redisson-barging", About: "a newcomer acquires a free lock in Redisson's form although others queue for it",
		Edits:   []overlay.Edit{part("nobody-waits", " and redis.call('EXISTS', KEYS[2]) == 0", "")},
		Tests:   []Test{{"scripts", "TestScripts"}},
		Subject: campaign.Redisson{},
		Kinds:   []string{"process-pause-long", "process-killed", "server-pause-long"}, Rules: []campaign.Rule{campaign.Order},
	},
	{
		Name: "redisson-for-ever", About: "a lock in Redisson's form has no expiry, and stays when its holder dies",
		Edits:   []overlay.Edit{line("redisson-expiry", "")},
		Tests:   []Test{{"scripts", "TestRedissonsForm"}},
		Subject: campaign.Redisson{},
		Kinds:   []string{"process-killed"}, Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "part-kept", About: "some of several locks are kept if another cannot be acquired",
		Edits:   []overlay.Edit{line("give-back", "_ = lease")},
		Tests:   []Test{{"../", "TestMultiGivesUpWithItsContext"}},
		Subject: campaign.Multi{},
		Rules:   []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "no-canonical-order", About: "several locks are acquired in the order in which they are named",
		Edits: []overlay.Edit{line("canonical-order", "slices.SortFunc(order, func(i, j int) int { return i - j })")},
		Tests: []Test{{"virtual", "TestWaitEndsWhileTheLockIsHeld"}},
	},
	{
		Name: "failure-counts", About: "a job's run counts although it failed",
		Edits:   []overlay.Edit{line("job-succeeded", "if err != holdfast.ErrInvalid {")},
		Tests:   []Test{{"virtual", "TestWaitBoundsJobs"}},
		Subject: campaign.Once{},
		Rules:   []campaign.Rule{campaign.Counting},
	},
	{
		Name: "begun-counts", About: "a job's run counts from its beginning, even if its process dies",
		Edits: []overlay.Edit{part("count-try", "'last', fence", "'last', fence, 'done', whole(now), 'fence', fence, 'info', '{}', 'result', '', 'count', '1'")},
		Tests: []Test{{"scripts", "TestOnce"}},
	},
	{
		Name: "completed-unlocked", About: "a run counts although its lock was lost, and another has run the job since",
		Edits: []overlay.Edit{line("completion-owner", ""), line("job-locked", "if err := error(nil); err != nil {")},
		Tests: []Test{{"scripts", "TestOnce"}},
	},
	{
		Name: "leads-on", About: "a leader does not check whether its lease is over",
		Edits: []overlay.Edit{
			part("deadline-by-clock", "!l.over", "l.g.l.Set.SeenAs == \"\" && !l.over"),
			insert("deadline-timer", "if h.expired(now) && h.l.Set.SeenAs != \"\" {\n\treturn\n}"),
		},
		Tests:   []Test{{"virtual", "TestACompletedJobIsWrittenDownWhileItsLeaseLasts"}},
		Subject: campaign.Election{},
		Kinds:   paused, Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "end-of-term-unannounced", About: "watchers of an election are not told that a term has ended",
		Edits: []overlay.Edit{line("announce-end", "")},
		Tests: []Test{{"virtual", "TestWatchersHearOfTheEndOfATerm"}},
	},
	{
		Name: "status-reversed", About: "a status tells the waiters in the wrong order",
		Edits: []overlay.Edit{line("status-in-order", "local all = redis.call('ZREVRANGEBYSCORE', queue, '+inf', '0', 'WITHSCORES', 'LIMIT', '0', n)")},
		Tests: []Test{{"scripts", "TestStatusOfAMutex"}, {"behaviour", "TestStatusNamesWaitersInTheirOrder"}},
	},
	{
		Name: "limit-of-the-caller", About: "a status has the number of permits that its caller says",
		Edits: []overlay.Edit{line("limit-of-the-server", "s.Limit = l.Set.Limit")},
		Tests: []Test{{"behaviour", "TestStatusTellsTheServersLimit"}, {"behaviour", "TestStatusNamesWaitersInTheirOrder"}},
	},
}
