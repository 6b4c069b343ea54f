package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// Short names, for what most of this file consists of. The places are markers in the library's
// sources: "mutants: release-owner".
var (
	line   = overlay.Line
	part   = overlay.Part
	insert = overlay.Insert
)

// byScript makes all releases go by script, for mutants of those scripts.
var byScript = line("native-release", "if false {")

// paused are the faults that bring to light who does not know that a lease is over.
var paused = []string{"process-pause-long", "server-pause-long"}

// All are the mutants.
var All = []Mutant{
	{
		Name: "release-anybodys", About: "release deletes the lock without asking whose it is",
		Edits: []overlay.Edit{
			line("release-owner", "if value then"),
			part("batch-release-owner", "string.find(value, ARGV[i], 1, true) == 1 and ", ""),
			byScript,
		},
		Kinds: paused, Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "renew-recreates", About: "a renewal brings back a lock that has expired",
		Edits: []overlay.Edit{
			insert("renew-absent", "if not value then\n  redis.call('SET', KEYS[1], granted .. '0:0:{}', 'PX', ttl)\n  value = granted\nend"),
			insert("batch-renew-absent", "if not value then\n  value = ARGV[1 + i] .. '0:0:{}'\n  redis.call('SET', KEYS[i], value, 'PX', 1)\nend"),
		},
		Kinds: []string{"server-pause-long", "process-pause-long", "late-replies", "late-copy", "delayed-requests"}, Rules: []campaign.Rule{campaign.Overlap, campaign.Leak, campaign.Wakeup},
	},
	{
		Name: "renew-in-seconds", About: "a renewal counts in whole seconds: less than one deletes the lock, and the answer is that it was renewed",
		Edits: []overlay.Edit{
			line("prolong", "redis.call('EXPIRE', KEYS[1], math.floor(pttl / 1000))"),
			line("batch-prolong", "or redis.call('EXPIRE', KEYS[i], math.floor((ARGV[n + 1 + i] or ARGV[n + 2]) / 1000)) == 0 then"),
		},
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "deadline-from-reply", About: "deadlines count from the reply, not from the sending",
		Edits: []overlay.Edit{
			part("grant-deadline", "sent, sent", "clock.Now(), clock.Now()"),
			part("renewed-deadline", "= sent,", "= clock.Now(),"),
		},
		Kinds: []string{"delayed-replies", "late-replies", "server-pause", "server-pause-long"}, Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "reentry-not-counted", About: "the first release of a lock that was acquired again gives it up",
		Edits: []overlay.Edit{line("joined-release", "if h != nil {")},
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "reentry-never-freed", About: "a lease that was acquired again stays counted when it is released",
		Edits: []overlay.Edit{line("joined-uncounted", "")},
		Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup},
	},
	{
		Name: "loss-by-timer", About: "Err trusts a timer that a paused process does not run",
		Edits: []overlay.Edit{part("deadline-by-clock", "l.ended == nil", "false")},
		Kinds: []string{"process-pause-long"}, Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "acquire-not-idempotent", About: "an acquire that is repeated does not know its own lock",
		Edits: []overlay.Edit{line("own-lock", "if false then")},
		Kinds: []string{"lost-reply"}, Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup},
	},
	{
		Name: "subscribe-after-check", About: "a waiter subscribes after it has looked, and misses what is published between",
		Edits: []overlay.Edit{
			line("subscribe-first", "up := true"),
			line("subscription-seen", "if false {"),
			line("waiter-listens", "elseif waiter_token then"),
			part("subscription-cut", "acq.sub.HasMissed() || ", ""),
		},
		Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "no-tombstone", About: "a token that was given up can still acquire when its request comes late",
		Edits: []overlay.Edit{line("tombstone", "if true then")},
		Kinds: []string{"late-copy", "delayed-requests"}, Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup},
	},
	{
		Name: "token-per-process", About: "all acquires of a process have one token",
		Edits: []overlay.Edit{part("new-token", `t.made.Add(1)`, `uint64(1)`)},
		Rules: []campaign.Rule{campaign.Overlap, campaign.Fences},
	},
	{
		Name: "hand-over-untold", About: "a release hands the lock over and tells nobody",
		Edits: []overlay.Edit{part("tell-of-grant", "send(channel,", "send('x' .. channel,")},
		Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "mark-forgotten", About: "a waiter does not mark the lock, so that its release does not look at the queue",
		Edits: []overlay.Edit{line("mark-lock", "kind = 'ours'")},
		Rules: []campaign.Rule{campaign.Wakeup},
	},
	{
		Name: "last-come-first-served", About: "the youngest waiter is served",
		Edits: []overlay.Edit{line("waiters-in-order", "return look_at('ZREVRANGEBYSCORE', KEYS[2], '+inf', '0', 'LIMIT', '0', n) or {}")},
		Rules: []campaign.Rule{campaign.Order},
	},
	{
		Name: "barging", About: "a newcomer takes a free lock although others queue for it",
		Edits: []overlay.Edit{
			part("nobody-waits", " and redis.call('EXISTS', KEYS[2]) == 0", ""),
			part("batch-nobody-waits", ", KEYS[n + i]", ""),
			part("lone-free", ", KEYS[2]", ""),
		},
		Kinds: []string{"process-pause-long", "process-killed", "server-pause-long"}, Rules: []campaign.Rule{campaign.Order},
	},
	{
		Name: "one-fence", About: "every grant has the same fence",
		Edits: []overlay.Edit{line("minted", "return 5, n"), line("lone-taken", "return 'taken ' .. at .. ' 5'")},
		Rules: []campaign.Rule{campaign.Fences, campaign.StaleWrite},
	},
	{
		Name: "fence-without-floor", About: "fences begin anew when the counter is lost",
		Edits: []overlay.Edit{
			line("fence-floor", "fence = fence + 1"),
			part("lone-fence", "= at,", "= '1',"),
			part("lone-counter", "last and (", "last and (true or "),
			line("lone-next-fence", "fence = string.format('%d', tonumber(last) + 1)"),
		},
		Kinds: []string{"fences-deleted", "flushall", "wiped-restart"}, Rules: []campaign.Rule{campaign.Fences, campaign.StaleWrite},
	},
	{
		Name: "block-reused", About: "every lease that is passed on within the process has the same fence",
		Edits: []overlay.Edit{line("next-fence", "")},
		Rules: []campaign.Rule{campaign.Fences},
	},
	{
		Name: "passed-on-when-over", About: "a lease is passed on within the process after its deadline",
		Edits: []overlay.Edit{
			line("look-at-release", ""),
			part("lost-at-release", "h.state == over", "false"),
			line("pass-on", "if l.ended != ErrReleased {"),
			part("deadline-by-clock", "l.ended == nil", "false"),
			part("passing-time", "> maxPassing", "< 0"),
		},
		Kinds: paused, Rules: []campaign.Rule{campaign.Overlap, campaign.Fences},
	},
	{
		Name: "entry-left", About: "a waiter that gives up stays in the queue",
		Edits: []overlay.Edit{part("take-back", "a.member", `""`)},
		Kinds: []string{"cancelled-acquires"}, Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup, campaign.Order},
	},
	{
		Name: "crossed-grant-kept", About: "a grant that crosses a cancellation is given back by nobody",
		Edits: []overlay.Edit{line("take-back", "_ = end")},
		Kinds: []string{"cancelled-acquires"}, Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup},
	},
	{
		Name: "past-the-reserved", About: "a lease is passed on within the process with fences that were not reserved",
		Edits: []overlay.Edit{part("reserved-fences", "h.nextFence >= h.fenceEnd && h.flying == 0 || ", "")},
		Tests: []Test{{"virtual", "TestALockIsNotPassedOnPastTheReservedFences"}},
	},
	{
		Name: "crossed-local-grant-kept", About: "a lease that is passed on to a goroutine which gives up is kept",
		Edits: []overlay.Edit{line("crossed-local-grant", "_ = r.lease")},
		Tests: []Test{{"virtual", "TestALeaseThatIsPassedOnToWhoGivesUpGoesOn"}},
	},
	{
		Name: "valid-after-close", About: "a lease that is granted while the client closes stays valid",
		Edits: []overlay.Edit{line("granted-during-close", "if false {")},
		Tests: []Test{{"virtual", "TestALeaseThatIsGrantedDuringCloseIsOver"}},
	},
	{
		Name: "shared-key-reasserted", About: "a key that is shared is taken again after the server has lost its data",
		Edits: []overlay.Edit{part("shared-key-lost", "!h.l.set.kind.reasserted", "h.l.set.kind.isShared()")},
		Tests: []Test{{"virtual", "TestASharedKeyIsNotTakenAgainAfterALossOfData"}},
	},
	{
		Name: "end-of-term-unannounced", About: "who watches an election is not told that a term has ended",
		Edits: []overlay.Edit{line("announce-end", "")},
		Tests: []Test{{"virtual", "TestWatchersHearOfTheEndOfATerm"}},
	},
	{
		Name: "batch-deadline-from-reply", About: "what is renewed together lasts from the reply on, not from the sending",
		Edits: []overlay.Edit{part("kept-from", "r.Sent", "now")},
		Tests: []Test{{"virtual", "TestALeaseEndsBeforeTheServersWhenRenewalsAreAnsweredLate"}},
	},
	{
		Name: "second-left-taken", About: "of the locks that a batch leaves all but the first count as taken",
		Edits: []overlay.Edit{line("next-left", "r.Left = nil")},
		Tests: []Test{{"virtual", "TestEachLockOfABatchHasItsOwnAnswer"}},
	},
	{
		Name: "batch-fences-reversed", About: "the first lock of a batch has the fence that the server gave to the last",
		Edits: []overlay.Edit{part("fence-of-item", "uint64(i)", "uint64(len(items)-1-i)")},
		Tests: []Test{{"virtual", "TestEachLockOfABatchHasItsOwnAnswer"}},
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
		Name: "replicas-not-waited-for", About: "a quarantine is no longer where a master before this one may go on for a while",
		Edits: []overlay.Edit{part("replicas-wait", " + (others and replica_lag or 0)", "")},
		Tests: []Test{{"dataloss", "TestQuarantineIsLongerWhereThereAreReplicas"}},
	},
	{
		Name: "quarantine-not-lengthened", About: "a quarantine is not lengthened for a client whose leases can last longer",
		Edits: []overlay.Edit{line("quarantine-lengthened", "ready = ready")},
		Tests: []Test{{"dataloss", "TestAQuarantineIsLengthenedForLongerLeases"}},
	},
	{
		Name: "reasserted-past-another", About: "a holder takes its lock again after a loss of data unless a later fence is there",
		Edits: []overlay.Edit{line("had-between", "local later = fence")},
		Tests: []Test{{"dataloss", "TestAHolderAfterWhomTheClockWentBack"}, {"dataloss", "TestAHolderWhoseFenceLedTheClock"}, {"dataloss", "TestAHolderWhoseNextServersClockIsSlow"}},
	},
	{
		Name: "reasserted-late", About: "the age of a grant is counted back from when the request to have the lock again arrives",
		Edits: []overlay.Edit{line("had-between", "local later = math.min(fence, granted_at, now - age)")},
		Tests: []Test{{"dataloss", "TestAReassertionThatTakesLongToArrive"}},
	},
	{
		Name: "reasserted-by-another-clock", About: "a holder takes its lock again from a server whose clock is behind the one that said it was lost",
		Edits: []overlay.Edit{line("clock-behind", "if false then")},
		Tests: []Test{{"scripts", "TestScripts"}},
	},
	{
		Name: "adopts-anybodys", About: "a ticket is good for the lock, whoever has that by now",
		Edits: []overlay.Edit{line("adopt-compare", "if false then")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-twice", About: "whoever adopts a lock has it under the ticket's token, which others have, too",
		Edits: []overlay.Edit{line("adopt-swap", "write_lock(detached, value, pttl)")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adoption-not-idempotent", About: "an adoption that is sent again does not know its own lock",
		Edits: []overlay.Edit{line("adopt-own", "if false then")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-after-giving-up", About: "an adoption that was given up is carried out when it comes late",
		Edits: []overlay.Edit{line("adopt-given-up", "if false then")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-too-late", About: "an adoption is carried out after its not-after",
		Edits: []overlay.Edit{line("adopt-late", "if false then")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adoption-shortens", About: "a lock lasts for less after it is adopted than before",
		Edits: []overlay.Edit{line("adopt-expiry", "local pttl = ttl")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-fence-kept", About: "whoever adopts a lock has the fence of the holder before",
		Edits: []overlay.Edit{line("adopt-fence", "local fence = tonumber(ARGV[7])")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "ticket-without-tombstone", About: "a ticket's token can acquire again once its lock was adopted",
		Edits: []overlay.Edit{line("adopt-tombstone", "")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adoption-unmarks", About: "a lock that is adopted is not marked any more, so that its release does not look at the queue",
		Edits: []overlay.Edit{line("adopt-mark", "local marked = false")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "adopted-in-quarantine", About: "a lock is adopted although another may hold what it became",
		Edits: []overlay.Edit{line("adopt-quarantined", "if false then")},
		Tests: []Test{{"scripts", "TestNothingIsAdoptedInQuarantine"}},
	},
	{
		Name: "fences-from-before", About: "fences that were reserved before a loss of data are granted after it",
		Edits: []overlay.Edit{part("block-from-before", "h.reassertions == reassertions", "reassertions == h.reassertions || true")},
		Tests: []Test{{"virtual", "TestFencesThatWereReservedBeforeALossAreNotUsed"}},
	},
	{
		Name: "extended-passed-on", About: "a lease is passed on that the server may keep for as long as its holder asked for",
		Edits: []overlay.Edit{line("extension-asked", "")},
		Tests: []Test{{"virtual", "TestALeaseThatIsBeingExtendedIsNotPassedOn"}},
	},
	{
		Name: "standby-puts-off", About: "a stand-by lets a waiter sleep for longer than it meant to",
		Edits: []overlay.Edit{part("standby-earlier", "d < time.Until(checkAt)", "d < time.Until(checkAt) || d > 0")},
		Tests: []Test{{"virtual", "TestAStandbyDoesNotPutOffALook"}},
	},
	{
		Name: "standby-to-the-dead", About: "a stand-by goes to the first in the queue, whether or not anybody hears it",
		Edits: []overlay.Edit{line("known-dead", "return false")},
		Tests: []Test{{"scripts", "TestStandbysGoToTheFirstThatIsAlive"}},
	},
	{
		Name: "late-copy-frees", About: "a late copy of a waiter's request frees the lock that it has got, while the server is in quarantine",
		Edits: []overlay.Edit{line("quarantined-own", "free_lock()\n    value = nil")},
		Tests: []Test{{"scripts", "TestALateCopyInQuarantineFreesNothing"}},
	},
	{
		Name: "refusal-prolongs", About: "an answer that writes nothing prolongs a lock that is in its last millisecond",
		Edits: []overlay.Edit{part("master-asked", "-3600000", "1")},
		Tests: []Test{{"scripts", "TestAnswersDoNotProlong"}},
	},
	{
		Name: "fences-beyond-belief", About: "fences follow a counter that somebody has set to far ahead of the clock",
		Edits: []overlay.Edit{line("fence-believed", "if false {"), line("counter-believed", "if false then")},
		Tests: []Test{{"behaviour", "TestACounterThatSomebodyHasSet"}, {"virtual", "TestFencesBeyondBelief"}},
	},
	{
		Name: "goroutine-left", About: "a client's scheduler outlives it",
		Edits: []overlay.Edit{line("close-schedule", "")},
		Rules: []campaign.Rule{campaign.Leak},
	},
	{
		Name: "batch-barging", About: "a batch takes a free lock although others queue for it",
		Edits: []overlay.Edit{part("batch-nobody-waits", ", KEYS[n + i]", ""), part("lone-free", ", KEYS[2]", "")},
		Kinds: []string{"process-pause-long", "process-killed", "server-pause-long"}, Rules: []campaign.Rule{campaign.Order},
	},
	{
		Name: "batch-takes-held", About: "a batch takes locks without looking whether they are free",
		Edits: []overlay.Edit{
			line("batch-free", "local all = true"),
			part("batch-set", "'NX', ", ""),
			part("lone-free", "redis.call('EXISTS', KEYS[1], KEYS[2]) > 0", "false"),
		},
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "batch-not-after", About: "a batch that comes late takes locks for those who have given up",
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
		Name: "batch-frees-anybodys", About: "a batch deletes locks without asking whose they are",
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
	{
		Name: "exists-then-set", About: "two commands: EXISTS, then SET", Naive: "exists-then-set",
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "setnx-then-expire", About: "two commands: SETNX, then PEXPIRE; a crash between leaves the lock for ever", Naive: "setnx-then-expire",
		Kinds: []string{"process-killed", "lost-request"}, Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "getset-client-clocks", About: "the time of expiry is in the value, by the clients' clocks, and taken with GETSET", Naive: "getset-client-clocks",
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "get-then-del", About: "release is two commands: GET, then DEL", Naive: "get-then-del",
		Kinds: []string{"delayed-requests", "slow-network"}, Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "plain-del", About: "release is a DEL", Naive: "plain-del",
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "millisecond-tokens", About: "the owner's token is the time in milliseconds", Naive: "millisecond-tokens",
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "never-told", About: "the holder is never told that its lease is over", Naive: "never-told",
		Kinds: paused, Rules: []campaign.Rule{campaign.Overlap},
	},

	{
		Name: "redisson-barging", About: "a newcomer takes a free lock in Redisson's form although others queue for it",
		Subject: campaign.Redisson{},
		Edits:   []overlay.Edit{part("nobody-waits", " and redis.call('EXISTS', KEYS[2]) == 0", "")},
		Kinds:   []string{"process-pause-long", "process-killed", "server-pause-long"}, Rules: []campaign.Rule{campaign.Order},
	},
	{
		Name: "redisson-for-ever", About: "a lock in Redisson's form has no expiry, and stays when its holder dies",
		Subject: campaign.Redisson{},
		Edits:   []overlay.Edit{line("redisson-expiry", "")},
		Kinds:   []string{"process-killed"}, Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "one-release-for-all", About: "a reader deletes the holds of the others",
		Subject: campaign.ReadWrite{},
		Edits:   []overlay.Edit{line("release-share", "redis.call('DEL', KEYS[1])\nused, next_expiry, common_fence = 0, 9e15, nil")},
		Rules:   []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "one-ttl-for-all", About: "all holders have one TTL: who died holds on while others renew",
		Subject: campaign.ReadWrite{},
		Edits:   []overlay.Edit{line("share-expired", "if false then")},
		Kinds:   []string{"process-killed"}, Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "permits-leak", About: "the permits of who died stay taken",
		Subject: campaign.Permits{},
		Edits: []overlay.Edit{
			part("share-expired", "<= now", "<= now and kind ~= 'sem'"),
			line("outlast-shares", "if kind ~= 'sem' then"),
		},
		Kinds: []string{"process-killed"}, Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "one-permit-more", About: "there is room for one more than the limit",
		Subject: campaign.Permits{},
		Edits:   []overlay.Edit{part("room", "limit", "limit + 1")},
		Rules:   []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "light-first", About: "who wants little passes who wants much",
		Subject: campaign.Permits{},
		Edits:   []overlay.Edit{part("share-nobody-waits", " and not first_waiter()", "")},
		Rules:   []campaign.Rule{campaign.Order},
	},
	{
		Name: "owner-not-asked", About: "whoever has an owner's lock lets everybody in",
		Subject: campaign.Owned{},
		Edits:   []overlay.Edit{part("same-owner", " and owner == lock_owner", "")},
		Rules:   []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "owner-counted-once", About: "an owner's second lease is not counted: the first that is released gives the lock up",
		Subject: campaign.Owned{},
		Edits:   []overlay.Edit{line("add-weight", "used = kind == 'own' and 1 or used + weight")},
		Rules:   []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "joined-and-left", About: "the first of the readers that share a lease releases it for all",
		Subject: campaign.ReadWrite{},
		Edits:   []overlay.Edit{line("joined-release", "if h != nil {")},
		Rules:   []campaign.Rule{campaign.Overlap},
	},

	{
		Name: "part-kept", About: "a part of several locks is kept when another cannot be had",
		Subject: campaign.Multi{},
		Edits:   []overlay.Edit{line("give-back", "_ = lease")},
		Rules:   []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "no-canonical-order", About: "several locks are acquired in the order in which they are named",
		Subject: campaign.Multi{},
		Edits:   []overlay.Edit{line("canonical-order", "slices.SortFunc(order, func(i, j int) int { return i - j })")},
		Rules:   []campaign.Rule{campaign.Wakeup},
	},
	{
		Name: "failure-counts", About: "a job's run counts though it failed",
		Subject: campaign.Once{},
		Edits:   []overlay.Edit{line("job-succeeded", "if err != ErrInvalid {")},
		Rules:   []campaign.Rule{campaign.Counting},
	},
	{
		Name: "begun-counts", About: "a job's run counts from when it begins, also if its process dies",
		Subject: campaign.Once{},
		Edits:   []overlay.Edit{part("count-try", "'last', fence", "'last', fence, 'done', whole(now), 'fence', fence, 'info', '{}', 'result', '', 'count', '1'")},
		Kinds:   []string{"process-killed"}, Rules: []campaign.Rule{campaign.Counting},
	},
	{
		Name: "completed-unlocked", About: "a run counts though its lock was lost, and another has run the job since",
		Subject: campaign.Once{},
		Edits:   []overlay.Edit{line("completion-owner", "if false then"), insert("job-locked", "return nil")},
		Kinds:   paused, Rules: []campaign.Rule{campaign.Counting},
	},
	{
		Name: "leads-on", About: "a leader does not look whether its lease is over",
		Subject: campaign.Election{},
		Edits: []overlay.Edit{
			part("deadline-by-clock", "l.ended == nil", "!l.g.l.set.apart && l.ended == nil"),
			insert("deadline-timer", "if h.expired(now) && h.l.set.apart {\n\treturn\n}"),
		},
		Kinds: paused, Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "half-a-quorum", About: "N/2 nodes are enough",
		Subject: campaign.Quorum{},
		Edits:   []overlay.Edit{part("majority", "n/2 + 1", "n / 2")},
		Rules:   []campaign.Rule{campaign.Overlap, campaign.Fences},
	},
	{
		Name: "no-incarnation", About: "a node that restarted, or was emptied, grants at once",
		Subject: campaign.Quorum{},
		Edits:   []overlay.Edit{insert("node-refusal", "if true then\n  return nil\nend")},
		Kinds:   []string{"wiped-restart", "flushall"}, Rules: []campaign.Rule{campaign.Overlap, campaign.Fences},
	},
	{
		Name: "fence-told-nobody", About: "a fence is not told to the nodes that are below it",
		Subject: campaign.Quorum{},
		Edits:   []overlay.Edit{line("fence-known", "if known >= 0 {")},
		Kinds:   []string{"server-pause-long", "refused-connections", "lost-reply"}, Rules: []campaign.Rule{campaign.Fences},
	},
	{
		// Who comes so late is past its own deadline, in any history: tests ask the node itself.
		Name: "second-phase-unowned", About: "a node is told of a fence without asking whose the lock is by then",
		Edits: []overlay.Edit{line("node-fence-owner", "if false then")},
		Tests: []Test{{"scripts", "TestNodes"}, {"quorum", "TestNodeLosesTheLockBeforeItIsToldAFence"}},
	},
	{
		Name: "tickets-unread", About: "a node grants a lock although an earlier ticket waits for it",
		Edits: []overlay.Edit{line("ticket-kept", "if false then")},
		Tests: []Test{{"scripts", "TestNodes"}},
	},
	{
		Name: "held-by-one-node", About: "a lock of a quorum counts as held when one node names a holder",
		Edits: []overlay.Edit{part("named-by-a-majority", "most >= q.need", "most >= 1")},
		Tests: []Test{{"quorum", "TestHeldIsWhatAMajoritySays"}},
	},
	{
		Name: "restarted-majority", About: "a majority that restarted is raised to what those know that answer",
		Edits: []overlay.Edit{part("all-have-answered", "good+len(lost) == len(q.clients) && ", "")},
		Tests: []Test{{"quorum", "TestRestartedTogether"}},
	},
	{
		Name: "node-batch-takes-held", About: "a batch takes locks of a node without looking whether they are free",
		Subject: campaign.Quorum{},
		Edits:   []overlay.Edit{line("batch-free", "local all = true"), part("batch-set", "'NX', ", "")},
		Rules:   []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "node-batch-one-fence", About: "all grants of a node's batches have one fence",
		Subject: campaign.Quorum{},
		Edits:   []overlay.Edit{line("node-batch-fence", "fence = 5")},
		Rules:   []campaign.Rule{campaign.Fences},
	},
	{
		// Nothing but a vote of this kind, of a node that was emptied, would show it in a history: tests ask
		// the node itself.
		Name: "node-batch-unrefused", About: "a batch takes locks of a node that counts for nothing",
		Edits: []overlay.Edit{line("node-batch-refused", "if false then")},
		Tests: []Test{{"scripts", "TestNodeBatches"}},
	},
	{
		Name: "node-batch-not-after", About: "a batch that comes late takes locks of a node",
		Edits: []overlay.Edit{line("batch-late", "if false then")},
		Tests: []Test{{"scripts", "TestNodeBatches"}},
	},
	{
		Name: "counter-forgotten", About: "a node that lost its fence counter is not told of those of the others",
		Subject: campaign.Quorum{},
		Edits:   []overlay.Edit{line("raise-counter", "local counter = read_counter() or 0")},
		Kinds:   []string{"older-restart"}, Rules: []campaign.Rule{campaign.Fences},
	},

	{
		Name: "counted-again", About: "a count-down that is sent again counts again",
		Subject: campaign.Latch{},
		Edits:   []overlay.Edit{line("counted-before", "local known = false")},
		Kinds:   []string{"lost-reply"}, Rules: []campaign.Rule{campaign.Counted},
	},
	{
		Name: "counted-for-another", About: "who has not joined a latch counts down in the place of a party that has",
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
		Name: "dead-awaited", About: "a latch's party that died is waited for for ever",
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
		Name: "one-party-fewer", About: "a barrier lets its parties pass when one has not arrived",
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
