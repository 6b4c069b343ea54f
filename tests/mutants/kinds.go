package mutants

import "github.com/holdfast-go/holdfast/tests/internal/campaign"

// Locks in Redisson's form, multi-locks, jobs and elections.
var kinds = []Mutant{
	mutant("redisson-barging", "a newcomer acquires a free lock in Redisson's form although others queue for it",
		by("scripts.TestScripts"), part("nobody-waits", " and redis.call('EXISTS', KEYS[2]) == 0", "")).
		hunted(campaign.Redisson{}, []string{"process-pause-long", "process-killed", "server-pause-long"}, campaign.Order),
	mutant("redisson-for-ever", "a lock in Redisson's form has no expiry, and stays when its holder dies",
		by("scripts.TestRedissonsForm"), line("redisson-expiry", "")).
		hunted(campaign.Redisson{}, []string{"process-killed"}, campaign.Wakeup, campaign.Leak),
	mutant("part-kept", "some of several locks are kept if another cannot be acquired",
		by("../.TestMultiGivesUpWithItsContext"), line("give-back", "_ = lease")).
		hunted(campaign.Multi{}, nil, campaign.Wakeup, campaign.Leak),
	mutant("no-canonical-order", "several locks are acquired in the order in which they are named",
		by("virtual.TestWaitEndsWhileTheLockIsHeld"),
		line("canonical-order", "slices.SortFunc(order, func(i, j int) int { return i - j })")),
	mutant("failure-counts", "a job's run counts although it failed",
		by("virtual.TestWaitBoundsJobs"), line("job-succeeded", "if err != holdfast.ErrInvalid {")).
		hunted(campaign.Once{}, nil, campaign.Counting),
	mutant("begun-counts", "a job's run counts from its beginning, even if its process dies",
		by("scripts.TestOnce"),
		part("count-try", "'last', fence", "'last', fence, 'done', whole(now), 'fence', fence, 'info', '{}', 'result', '', 'count', '1'")),
	mutant("completed-unlocked", "a run counts although its lock was lost, and another has run the job since",
		by("scripts.TestOnce"), line("completion-owner", ""), line("job-locked", "if err := error(nil); err != nil {")),
	mutant("leads-on", "a leader does not check whether its lease is over",
		by("virtual.TestACompletedJobIsWrittenDownWhileItsLeaseLasts"),
		part("deadline-by-clock", "!l.over", "l.g.l.Set.SeenAs == \"\" && !l.over"),
		insert("deadline-timer", "if h.expired(now) && h.l.Set.SeenAs != \"\" {\n\treturn\n}")).
		hunted(campaign.Election{}, paused, campaign.Overlap),
	mutant("end-of-term-unannounced", "watchers of an election are not told that a term has ended",
		by("virtual.TestWatchersHearOfTheEndOfATerm"), line("announce-end", "")),
	mutant("status-reversed", "a status tells the waiters in the wrong order",
		by("scripts.TestStatusOfAMutex", "behaviour.TestStatusNamesWaitersInTheirOrder"),
		line("status-in-order", "local all = redis.call('ZREVRANGEBYSCORE', queue, '+inf', '0', 'WITHSCORES', 'LIMIT', '0', n)")),
	mutant("limit-of-the-caller", "a status has the number of permits that its caller says",
		by("behaviour.TestStatusTellsTheServersLimit", "behaviour.TestStatusNamesWaitersInTheirOrder"),
		line("limit-of-the-server", "s.Limit = l.Set.Limit")),
}

// nextOfLast is the id after the last one of a counter, whatever the time.
const nextOfLast = "string.gsub((redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', '1')[1] or {'0-0'})[1], '%d+$', function(n) return n + 1 end)"
