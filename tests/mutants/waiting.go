package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// Acquires, the wait queue, hand-overs, standbys, and attempts that are given up.
var waiting = []Mutant{
	{
		Name: "follower-without-its-promise", About: "a waiter that is queued with a release is another one when it looks",
		Edits: []overlay.Edit{part("follower-promises", "By: a.by, ", "")},
		Tests: []Test{{"virtual", "TestAWaiterThatAReleaseCarriedLooks"}},
	},
	{
		Name: "acquire-not-idempotent", About: "a repeated acquire does not recognize its own lock",
		Edits: []overlay.Edit{line("own-lock", "if false then")},
		Tests: []Test{{"scripts", "TestScripts"}},
	},
	{
		Name: "token-per-process", About: "all acquires of a process have one token",
		Edits: []overlay.Edit{part("new-token", `t.made.Add(1)`, `uint64(1)`)},
		Tests: []Test{{"virtual", "TestALateReplyIsNoFailureOfSomebodyElse"}},
	},
	{
		Name: "no-tombstone", About: "a token that was given up still acquires if its request comes late",
		Edits: []overlay.Edit{line("tombstone", "if true then return end")},
		Tests: []Test{{"scripts", "TestScripts"}},
		Kinds: []string{"late-copy", "delayed-requests"}, Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup},
	},
	{
		Name: "subscribe-after-check", About: "a waiter subscribes after it has looked, and misses messages in between",
		Edits: []overlay.Edit{
			line("subscribe-first", "up := true"),
			line("subscription-seen", "if false {"),
			line("waiter-listens", "elseif waiter_token then"),
			line("short-release", "if false then"),
			part("subscription-cut", "acq.sub.HasMissed() || ", ""),
		},
		Tests: []Test{{"scripts", "TestScripts"}},
		Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "hand-over-untold", About: "a release hands the lock over and tells nobody",
		Edits: []overlay.Edit{part("tell-of-grant", "send(channel,", "send('x' .. channel,"), line("short-release", "if false then")},
		Tests: []Test{{"scripts", "TestTheShortWayOfAReleaseDoesTheSame"}},
		Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "mark-forgotten", About: "a waiter does not mark the lock, so its release does not check the queue",
		Edits: []overlay.Edit{line("mark-lock", "kind = 'ours'"), line("short-acquire", "if false then")},
		Tests: []Test{{"scripts", "TestCommandsOfAHandOver"}},
	},
	{
		Name: "last-come-first-served", About: "the youngest waiter is served",
		Edits: []overlay.Edit{
			line("waiters-in-order", "return look_at('ZREVRANGEBYSCORE', KEYS[2], '+inf', '0', 'LIMIT', '0', n) or {}"),
			line("short-release", "if false then"),
		},
		Tests: []Test{{"scripts", "TestAdopt"}},
		Rules: []campaign.Rule{campaign.Order},
	},
	{
		Name: "tombstone-at-the-head", About: "an acquire takes the first entry of the queue for a waiter, even if that is a tombstone",
		Edits: []overlay.Edit{line("head-of-queue", "if true then")},
		Tests: []Test{{"scripts", "TestTheHeadOfAQueueTellsTheSame"}},
	},
	{
		Name: "barging", About: "a newcomer acquires a free lock although others queue for it",
		Edits: []overlay.Edit{
			part("nobody-waits", " and redis.call('EXISTS', KEYS[2]) == 0", ""),
		},
		Tests: []Test{{"scripts", "TestGap"}},
	},
	{
		Name: "entry-left", About: "a waiter that gives up stays in the queue",
		Edits: []overlay.Edit{part("take-back", "a.member", `""`)},
		Tests: []Test{{"virtual", "TestAWaiterThatGaveUpIsNotCounted"}},
	},
	{
		Name: "crossed-grant-kept", About: "a grant that crosses a cancellation is not given back",
		Edits: []overlay.Edit{line("take-back", "_ = end")},
		Tests: []Test{{"virtual", "TestAWaiterThatGaveUpIsNotCounted"}},
	},
	{
		Name: "standby-puts-off", About: "a standby lets a waiter sleep longer than it would without",
		Edits: []overlay.Edit{part("standby-earlier", "d < time.Until(checkAt)", "d < time.Until(checkAt) || d > 0")},
		Tests: []Test{{"virtual", "TestAStandbyDoesNotPutOffALook"}},
	},
	{
		Name: "standby-to-the-dead", About: "a standby goes to the first in the queue, even if that is dead",
		Edits: []overlay.Edit{line("known-dead", "return false")},
		Tests: []Test{{"scripts", "TestStandbysGoToTheFirstThatIsAlive"}},
	},
	{
		Name: "late-copy-frees", About: "while the server is in quarantine, a late copy of a waiter's request frees the waiter's lock",
		Edits: []overlay.Edit{line("quarantined-own", "free_lock()\n    value = nil")},
		Tests: []Test{{"scripts", "TestALateCopyInQuarantineFreesNothing"}},
	},
	{
		Name: "short-acquire-of-the-holder", About: "the short way of an acquire queues a token that has the lock",
		Edits: []overlay.Edit{part("queue-up-held", "holder == ARGV[2]", "false")},
		Tests: []Test{{"scripts", "TestTheHeadOfAQueueTellsTheSame"}},
	},
	{
		Name: "short-acquire-after-the-end", About: "the short way of an acquire queues a token that a tombstone stands for",
		Edits: []overlay.Edit{part("queue-up-head", "not channel or tonumber(first[2]) <= now - 60000000", "false")},
		Tests: []Test{{"scripts", "TestTheHeadOfAQueueTellsTheSame"}},
	},
	{
		Name: "short-acquire-out-of-order", About: "the short way of an acquire passes waiters that came when the clock was ahead",
		Edits: []overlay.Edit{line("queue-up-order", "")},
		Tests: []Test{{"scripts", "TestTheHeadOfAQueueTellsTheSame"}},
	},
	{
		Name: "short-acquire-behind-the-dead", About: "the short way of an acquire counts dead waiters in the rank",
		Edits: []overlay.Edit{line("queue-up-dead", "")},
		Tests: []Test{{"scripts", "TestTheHeadOfAQueueTellsTheSame"}},
	},
	{
		Name: "short-acquire-unmarked", About: "the short way of an acquire does not mark the lock",
		Edits: []overlay.Edit{line("queue-up-mark", "if false then")},
		Tests: []Test{{"scripts", "TestTheHeadOfAQueueTellsTheSame"}},
	},
	{
		Name: "short-release-to-the-last", About: "the short way of a release serves the youngest waiter",
		Edits: []overlay.Edit{part("pass-on-order", "'ZRANGEBYSCORE', KEYS[2], '0', '+inf'", "'ZREVRANGEBYSCORE', KEYS[2], '+inf', '0'")},
		Tests: []Test{{"scripts", "TestTheShortWayOfAReleaseDoesTheSame"}},
	},
	{
		Name: "short-release-to-the-dead", About: "the short way of a release hands the lock to dead waiters",
		Edits: []overlay.Edit{part("pass-on-dead", "heard[2] == 0 or ", "")},
		Tests: []Test{{"scripts", "TestTheShortWayOfAReleaseDoesTheSame"}},
	},
	{
		Name: "short-release-leaves-the-first", About: "the short way of a release tells a dead waiter when to look, and not the first that is alive",
		Edits: []overlay.Edit{part("pass-on-dead", " or heard[4] == 0", "")},
		Tests: []Test{{"scripts", "TestTheShortWayOfAReleaseDoesTheSame"}},
	},
	{
		Name: "short-release-with-old-fences", About: "the short way of a release gives a fence below the counter",
		Edits: []overlay.Edit{line("pass-on-fence", "local fence = at")},
		Tests: []Test{{"scripts", "TestTheShortWayOfAReleaseDoesTheSame"}},
	},
	{
		Name: "short-release-unmarked", About: "the short way of a release does not mark the lock for those who wait on",
		Edits: []overlay.Edit{part("pass-on-mark", "'+' or ''", "'' or ''")},
		Tests: []Test{{"scripts", "TestTheShortWayOfAReleaseDoesTheSame"}},
	},
	{
		Name: "short-release-without-standby", About: "the short way of a release does not tell the waiter behind when to look",
		Edits: []overlay.Edit{line("pass-on-follower", "if false then")},
		Tests: []Test{{"scripts", "TestTheShortWayOfAReleaseDoesTheSame"}},
	},
	{
		Name: "promise-of-the-past", About: "a waiter that has looked as it had promised is not told when to look",
		Edits: []overlay.Edit{part("pass-on-promise", "promised * 1000 <= now or ", "")},
		Tests: []Test{{"scripts", "TestAPromiseSparesAMessage"}, {"virtual", "TestWhoWaitsLongPromisesNothing"}},
	},
	{
		Name: "promise-too-late", About: "a waiter that has promised to look after the claim ends is not told when to look",
		Edits: []overlay.Edit{part("pass-on-promise", " or promised * 1000 > due", "")},
		Tests: []Test{{"scripts", "TestAPromiseSparesAMessage"}},
	},
	{
		Name: "promise-ignored", About: "a waiter that has promised to look is told when to look",
		Edits: []overlay.Edit{part("pass-on-promise", "promised * 1000 <= now or promised * 1000 > due", "true")},
		Tests: []Test{{"scripts", "TestAPromiseSparesAMessage"}, {"virtual", "TestAWaiterKeepsItsPromise"}},
	},
	{
		Name: "promise-broken", About: "a waiter does not look when it has promised to",
		Edits: []overlay.Edit{line("promised-look", "")},
		Tests: []Test{{"virtual", "TestAWaiterKeepsItsPromise"}},
	},
	{
		Name: "place-behind-itself", About: "a waiter that takes another's place counts that one before it, and looks as seldom as a second does",
		Edits: []overlay.Edit{part("place-taken", "place.Rank > 1", "false")},
		Tests: []Test{{"virtual", "TestAFirstWaiterForAnotherProgramsKeyIsReplaced"}},
	},
	{
		Name: "fences-too-late", About: "a lock that was handed over is given back, because its holder released it before it had fences for others",
		Edits: []overlay.Edit{line("fences-first", "")},
		Tests: []Test{{"../internal/engine", "TestABriefHoldWaitsForTheFencesOfOthers"}},
	},
	{
		Name: "grant-unread", About: "a waiter whose look fails asks again, and does not notice that it was handed the lock",
		Edits: []overlay.Edit{part("grant-beside-failures", "len(a.inbox) > 0", "false")},
		Tests: []Test{{"virtual", "TestALockIsHandedToAWaiterWhoseLooksAreRefused"}},
	},
	{
		Name: "message-no-answer", About: "a waiter whose first request fails gives up, although it was handed the lock meanwhile",
		Edits: []overlay.Edit{part("answered-by-message", "len(acq.attempt.inbox) > 0", "false")},
		Tests: []Test{{"virtual", "TestALockIsHandedToAWaiterThatHasHeardNothingElse"}},
	},
	{
		Name: "grant-slept-through", About: "a waiter whose look has failed pauses, and does not notice that it is handed the lock",
		Edits: []overlay.Edit{line("failed-listens", "acq.pause(time.Second)\nreturn nil")},
		Tests: []Test{{"virtual", "TestALockIsHandedToAWaiterWhoseLooksAreRefused"}},
	},
	{
		Name: "promise-kept-early", About: "a waiter takes an earlier look for the one that it has promised",
		Edits: []overlay.Edit{line("early-look", "own.owesLook = false")},
		Tests: []Test{{"virtual", "TestAWaiterKeepsItsPromise"}},
	},
	{
		Name: "promise-of-who-waits-long", About: "a waiter promises a look although it waits for longer",
		Edits: []overlay.Edit{part("long-wait", " && c.waited.Load() < int64(a.claim)", "")},
		Tests: []Test{{"virtual", "TestWhoWaitsLongPromisesNothing"}},
	},
	{
		Name: "reopened-by-each", About: "each waiter that the server does not know reopens the subscription once more",
		Edits: []overlay.Edit{part("reopened-thrice", " || s.unheard == maxUnheard", "")},
		Tests: []Test{{"virtual", "TestManyWaitersWhomTheServerDoesNotKnow"}},
	},
	{
		Name: "short-release-untold", About: "the short way of a release tells nobody of the grant",
		Edits: []overlay.Edit{part("pass-on-tell", "channel,", "'x' .. channel,")},
		Tests: []Test{{"scripts", "TestTheShortWayOfAReleaseDoesTheSame"}},
	},
	{
		Name: "short-release-forgets-the-unheard", About: "a release whose short way met a waiter that did not listen takes the lock for another's",
		Edits: []overlay.Edit{part("pass-on-unheard", "value", "nil")},
		Tests: []Test{{"scripts", "TestTheShortWayOfAReleaseDoesTheSame"}},
	},
	{
		Name: "joins-too-late", About: "a release queues the next waiter after its not-after",
		Edits: []overlay.Edit{part("join-late", " or now >= tonumber(ARGV[5])", "")},
		Tests: []Test{{"scripts", "TestAReleaseQueuesTheNextWaiter"}},
	},
	{
		Name: "joins-the-dead", About: "a release that queues the next waiter leaves old waiters that are dead",
		Edits: []overlay.Edit{part("join-head", " or tonumber(two[2]) <= now - 60000000", "")},
		Tests: []Test{{"scripts", "TestAReleaseQueuesTheNextWaiter"}},
	},
	{
		Name: "joins-before-others", About: "a release queues the next waiter before one that came earlier, by a clock that went back",
		Edits: []overlay.Edit{part("join-order", "tonumber(last[2]) < now and ", "")},
		Tests: []Test{{"scripts", "TestAReleaseQueuesTheNextWaiter"}},
	},
	{
		Name: "joins-who-is-served", About: "a late release queues the waiter again that gets the lock",
		Edits: []overlay.Edit{part("join-first", "first[1] ~= ARGV[6] and ", "")},
		Tests: []Test{{"scripts", "TestALateReleaseDoesNotQueueWhoGetsTheLock"}},
	},
	{
		Name: "joins-unseen", About: "a waiter that a release has not queued does not ask by itself",
		Edits: []overlay.Edit{part("follower-placed", "f.settled <- nil", "f.settled <- &standing{f.a, codec.Place{TTL: -1, Rank: 1, Receivers: 1}, f.by}")},
		Tests: []Test{{"virtual", "TestAReleaseFindsNobodyInTheQueue"}},
	},
	{
		Name: "joins-unowed", About: "a waiter that a release has queued is left in the queue when it gives up",
		Edits: []overlay.Edit{line("follower-owed", "")},
		Tests: []Test{{"virtual", "TestAWaiterGivesUpWhileAReleaseCarriesIt"}},
	},
	{
		Name: "joins-unanswered", About: "a waiter that a release may have queued is left in the queue when it gives up",
		Edits: []overlay.Edit{line("follower-unanswered", "")},
		Tests: []Test{{"virtual", "TestAWaiterGivesUpWhileAReleaseCarriesIt"}},
	},
	{
		Name: "joins-unasked", About: "a waiter does not know that the server owes an answer to the release that carries it",
		Edits: []overlay.Edit{line("follower-asked", "")},
		Tests: []Test{{"virtual", "TestAnOutageWhileAReleaseCarriesAWaiter"}},
	},
	{
		Name: "joins-unheard", About: "a waiter that was notified waits for the reply to the release that carries it",
		Edits: []overlay.Edit{line("follower-leaves", "return <-f.settled")},
		Tests: []Test{{"virtual", "TestALostReplyDoesNotHoldUpTheNextWaiter"}},
	},
	{
		Name: "next-waiter-held-back", About: "a process's next waiter is queued only when the lock is released",
		Edits: []overlay.Edit{part("follow-time", "maxFollow", "100*maxFollow")},
		Tests: []Test{{"virtual", "TestTheNextWaiterAsksDuringALongHold"}},
	},
	{
		Name: "next-waiter-of-lost-held-back", About: "a process's next waiter is held back for the release of a hold that was lost",
		Edits: []overlay.Edit{line("follower-of-lost", "")},
		Tests: []Test{{"virtual", "TestTheNextWaiterAsksWhenAHoldIsNotReleased"}},
	},
	{
		Name: "next-waiter-of-detached-held-back", About: "a process's next waiter is held back for the release of a hold that was detached",
		Edits: []overlay.Edit{line("follower-of-detached", "")},
		Tests: []Test{{"virtual", "TestTheNextWaiterAsksWhenAHoldIsNotReleased"}},
	},
	{
		Name: "next-waiter-alone", About: "a process's next waiter is not queued with the release",
		Edits: []overlay.Edit{part("follow-time", "maxFollow", "1")},
		Tests: []Test{{"virtual", "TestAReleaseCarriesTheNextWaiter"}},
	},
}
