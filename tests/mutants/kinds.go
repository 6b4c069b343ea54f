package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
)

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

// Locks that an operator breaks.
var breaks = []Mutant{
	mutant("breaks-anybodys", "a break takes the lock from whoever has it by now",
		by("scripts.TestBreak"), line("break-compare", "")),
	mutant("breaks-anybodys-permit", "a break takes a lock from anybody who holds it",
		by("scripts.TestShareBreak"), line("share-break-compare", "local hold = live(redis.call('HGET', KEYS[1], hold_token))")),
	mutant("broken-fence-kept", "a break does not raise the fence",
		by("scripts.TestBreak"), line("break-raise", "local raised = tonumber(fence)")),
	mutant("broken-without-tombstone", "a late acquire of the broken holder's token takes the lock again",
		by("scripts.TestBreak"), line("break-tombstone", "")),
	mutant("break-not-idempotent", "a repeated break does not recognize what it has done",
		by("scripts.TestBreak"), line("break-once", "local reply = nil")),
	mutant("broken-unrecorded", "a break begins although the journal cannot be written",
		by("scripts.TestBreakWithoutAJournal"), line("break-journal-first", "")),
	mutant("journal-out-of-order", "an entry of the journal is scored by a clock that went back, and cut off first",
		by("scripts.TestJournal"), line("journal-order", "local score = now")),
	mutant("early-notice-dropped", "a notice that comes before the answer that grants the lock is forgotten",
		by("virtual.TestANoticeBeforeTheGrantIsNotLost"), line("notice-before-grant", "if false {")),
	mutant("break-unheeded", "a holder takes no notice of a break",
		by("behaviour.TestBreak"), line("heed-break", "if false {")),
	mutant("notice-believed", "a message that anybody can publish ends a lease",
		by("behaviour.TestANoticeAloneEndsNoLease"),
		line("notice-only-asks", "h.lose(&lock.LostError{Name: h.l.Name(), Reason: lock.LossBroken})")),
}

// nextOfLast is the id after the last one of a counter, whatever the time.
const nextOfLast = "string.gsub((redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', '1')[1] or {'0-0'})[1], '%d+$', function(n) return n + 1 end)"

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

// What observers are told.
var observers = []Mutant{
	mutant("loss-untold", "observers are not told that a lease was lost",
		by("virtual.TestEveryAcquireAndEveryLeaseHasOneEnd", "behaviour.TestObserversOfALostLease"),
		part("tell-loss", "h.observeLoss(err)", "_ = h.observeLoss")),
	mutant("end-told-twice", "observers are told of a lease's end as often as something ends it",
		by("virtual.TestEveryAcquireAndEveryLeaseHasOneEnd"), part("one-end", "o.over", "false")),
	mutant("failure-untold", "observers are not told that an acquire failed",
		by("virtual.TestEveryAcquireAndEveryLeaseHasOneEnd", "behaviour.TestObserversOfAnAcquireThatFails"),
		part("tell-end", "tell != nil", "tell != nil && err == nil")),
	mutant("told-under-a-mutex", "observers are called while the lease's mutex is held",
		by("behaviour.TestObserversAreCalledWithoutALock"),
		part("told-later", "*end = &queuedNews{n, tell, nil}", "tell(&o.told, lock.LeaseEvent{LeaseNews: n})")),
	mutant("outage-told-by-request", "observers are told of an outage by every request that fails in it",
		by("virtual.TestObserversOfAnOutage"), part("once-per-outage", "o.lost || ", "")),
	mutant("panic-unlogged", "nobody learns that an observer panics",
		by("behaviour.TestAnObserverThatPanics"), part("observer-panics", "what != nil", "what != nil && false")),
}

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

// Read-write locks, semaphores and owners' locks.
var shares = []Mutant{
	mutant("one-release-for-all", "a reader deletes the holds of the others",
		by("scripts.TestShares"), line("release-share", "redis.call('DEL', KEYS[1])\nused, next_expiry, common_fence = 0, 9e15, nil")).
		hunted(campaign.ReadWrite{}, nil, campaign.Overlap),
	mutant("one-ttl-for-all", "all holders have one TTL: a dead one holds on while others renew",
		by("scripts.TestRenewalsRemoveNobody"), line("share-expired", "if false then")).
		hunted(campaign.ReadWrite{}, []string{"process-killed"}, campaign.Wakeup, campaign.Leak),
	mutant("permits-leak", "the permits of a dead holder stay taken",
		by("scripts.TestShares"), part("share-expired", "<= now", "<= now and kind ~= 'sem'"),
		line("outlast-shares", "if kind ~= 'sem' then")),
	mutant("one-permit-more", "there is room for one more than the limit",
		by("scripts.TestShares"), part("room", "limit", "limit + 1")).hunted(campaign.Permits{}, nil, campaign.Overlap),
	mutant("light-first", "a waiter for few permits overtakes one for many",
		by("scripts.TestShares"), part("share-nobody-waits", " and not first_waiter()", "")).
		hunted(campaign.Permits{}, nil, campaign.Order),
	mutant("owner-not-asked", "an owner that has the lock lets everybody in",
		by("scripts.TestOwned"), part("same-owner", " and owner == lock_owner", "")).hunted(campaign.Owned{}, nil, campaign.Overlap),
	mutant("owner-counted-once", "an owner's second lease is not counted: the first release frees the lock",
		by("scripts.TestOwned"), line("add-weight", "used = kind == 'own' and 1 or used + weight")),
	mutant("joined-and-left", "the first of the readers that share a lease releases it for all",
		by("behaviour.TestReentrantIsHeldUntilTheLastRelease"), line("joined-release", "if h != nil {")),
}

// Quarantine, and locks that are claimed again after the server lost its data.
var dataloss = []Mutant{
	mutant("replicas-not-waited-for", "a quarantine is not longer if an earlier master may go on for a while",
		by("dataloss.TestQuarantineIsLongerWhereThereAreReplicas"), part("replicas-wait", " + (others and replica_lag or 0)", "")),
	mutant("quarantine-not-lengthened", "a quarantine is not lengthened for a client whose leases can last longer",
		by("dataloss.TestAQuarantineIsLengthenedForLongerLeases"), line("quarantine-lengthened", "ready = ready")),
	mutant("shared-key-reasserted", "a shared key is claimed again after the server has lost its data",
		by("virtual.TestASharedKeyIsNotTakenAgainAfterALossOfData"),
		part("shared-key-lost", "!h.l.Set.Kind.Reasserted", "h.l.Set.Kind.IsShared")),
	mutant("reasserted-past-another", "a holder claims its lock again after a loss of data unless the counter is above its fence",
		by("dataloss.TestAHolderAfterWhomTheClockWentBack", "dataloss.TestAHolderWhoseFenceLedTheClock", "dataloss.TestAHolderWhoseNextServersClockIsSlow"),
		line("had-between", "local later = fence")),
	mutant("reasserted-late", "the age of a grant is counted back from when the request to have the lock again arrives",
		by("dataloss.TestAReassertionThatTakesLongToArrive"), line("had-between", "local later = math.min(fence, granted_at, now - age)")),
	mutant("reasserted-within-a-ms", "a holder claims its lock again after a grant in the ms of its own",
		by("scripts.TestScripts"), line("had-in-the-same-ms", "return id and fence_of(id) >= later")),
	mutant("reasserted-by-another-clock",
		"a holder claims its lock again from a server whose clock is behind that of the server that reported the loss",
		by("scripts.TestScripts"), line("clock-behind", "if false then")),
	mutant("fences-from-before", "fences that were reserved before a loss of data are granted after it",
		by("virtual.TestFencesThatWereReservedBeforeALossAreNotUsed"),
		part("block-from-before", "h.reassertions == reassertions", "reassertions == h.reassertions || true")),
}
