package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// Deadlines, renewals, releases, leases that are joined or passed on within the process, and the end of a client.
var leases = []Mutant{
	{
		Name: "release-anybodys", About: "a release deletes the lock without checking whose it is",
		Edits: []overlay.Edit{
			line("release-owner", "if value then"),
			part("batch-release-owner", "string.find(value, ARGV[i], 1, true) == 1 and ", ""),
			byScript,
		},
		Tests: []Test{{"scripts", "TestScripts"}},
		Kinds: paused, Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "renew-recreates", About: "a renewal brings back a lock that has expired",
		Edits: []overlay.Edit{
			insert("renew-absent", "if not value then\n  redis.call('SET', KEYS[1], granted .. '0:0:{}', 'PX', ttl)\n  value = granted\nend"),
			insert("batch-renew-absent", "if not value then\n  value = ARGV[1 + i] .. '0:0:{}'\n  redis.call('SET', KEYS[i], value, 'PX', 1)\nend"),
		},
		Tests: []Test{{"scripts", "TestScripts"}},
	},
	{
		Name: "renew-in-seconds", About: "a renewal counts in whole seconds: less than one deletes the lock, and the reply says that it was renewed",
		Edits: []overlay.Edit{
			line("prolong", "redis.call('EXPIRE', KEYS[1], math.floor(pttl / 1000))"),
			line("batch-prolong", "or redis.call('EXPIRE', KEYS[i], math.floor((ARGV[n + 1 + i] or ARGV[n + 2]) / 1000)) == 0 then"),
		},
		Tests: []Test{{"scripts", "TestScripts"}},
	},
	{
		Name: "refusal-prolongs", About: "a reply without a write prolongs a lock in its last millisecond (on Redis 7.0)",
		Edits: []overlay.Edit{part("master-asked", "-3600000", "1")},
		Tests: []Test{{"scripts", "TestAnswersDoNotProlong"}},
	},
	{
		Name: "deadline-from-reply", About: "deadlines count from the reply, not from the sending",
		Edits: []overlay.Edit{
			part("grant-deadline", "newHold(a, sent,", "newHold(a, clock.Now(),"),
			part("renewed-deadline", "= sent,", "= clock.Now(),"),
		},
		Tests: []Test{{"virtual", "TestALeaseEndsBeforeTheServersWhenRenewalsAreAnsweredLate"}},
	},
	{
		Name: "batch-deadline-from-reply", About: "leases that are renewed together last from the reply on, not from the sending",
		Edits: []overlay.Edit{part("kept-from", "r.Sent", "now")},
		Tests: []Test{{"virtual", "TestALeaseEndsBeforeTheServersWhenRenewalsAreAnsweredLate"}},
	},
	{
		Name: "loss-by-timer", About: "Err trusts a timer that a paused process does not run",
		Edits: []overlay.Edit{part("deadline-by-clock", "!l.over", "false")},
		Tests: []Test{{"virtual", "TestALeaseThatASuspensionOutlivedIsNotPassedOn"}},
	},
	{
		Name: "reentry-not-counted", About: "the first release of a lock that was acquired again frees it",
		Edits: []overlay.Edit{line("joined-release", "if h != nil {")},
		Tests: []Test{{"behaviour", "TestReentrantIsHeldUntilTheLastRelease"}},
	},
	{
		Name: "reentry-never-freed", About: "a lease that was acquired again stays counted when it is released",
		Edits: []overlay.Edit{line("joined-uncounted", "")},
		Tests: []Test{{"behaviour", "TestReentrantNeedsTheHoldersContext"}},
	},
	{
		Name: "deadlock-unnoticed", About: "a caller waits for its own lease",
		Edits: []overlay.Edit{line("waits-for-itself", "continue")},
		Tests: []Test{{"behaviour", "TestAnAcquireWithinItsOwnLeaseFailsAtOnce"}},
	},
	{
		Name: "deadlock-of-the-dead", About: "a lease that is over counts as one that the caller waits for",
		Edits: []overlay.Edit{part("ended-lease", " || lease.Err() != nil", "")},
		Tests: []Test{{"behaviour", "TestALeaseThatIsOverIsNoDeadlock"}},
	},
	{
		Name: "own-permits-uncounted", About: "a caller waits for permits that it has itself",
		Edits: []overlay.Edit{part("own-permits", "taken+", "")},
		Tests: []Test{{"behaviour", "TestAnAcquireWithinItsOwnLeaseFailsAtOnce"}},
	},
	{
		Name: "deleted-as-taken", About: "the holder of a lock that was deleted is told that others have it",
		Edits: []overlay.Edit{part("deleted-or-taken", "codec.Absent, ", "")},
		Tests: []Test{{"behaviour", "TestALockThatWasDeletedIsToldFromOneThatWasTaken"}, {"behaviour", "TestADeletionIsToldInEveryWay"}},
	},
	{
		Name: "shares-deleted-as-taken", About: "whoever had a share of a lock that was deleted is told that others have it",
		Edits: []overlay.Edit{part("share-absent", "used == 0 and 'absent ' or ", "")},
		Tests: []Test{{"behaviour", "TestALockThatWasDeletedIsToldFromOneThatWasTaken"}, {"scripts", "TestShares"}},
	},
	{
		Name: "superseded-unnoted", About: "nobody knows that ReleaseOwner has ended a lease",
		Edits: []overlay.Edit{line("superseded-noted", "")},
		Tests: []Test{{"behaviour", "TestReleaseOwnerSupersedesALease"}, {"scripts", "TestOwned"}},
	},
	{
		Name: "renewals-before-all-counted", About: "a renewal that was under way when the last of several locks was granted counts for MaxRenewals",
		Edits: []overlay.Edit{line("renewals-before-all", "if true {")},
		Tests: []Test{{"virtual", "TestBoundsOfSeveralLocksCountFromWhenAllAreHeld"}},
	},
	{
		Name: "several-without-full-ttl", About: "several locks that are not renewed last for what the first has left",
		Edits: []overlay.Edit{line("full-ttl", "var err error; _ = all")},
		Tests: []Test{{"virtual", "TestBoundsOfSeveralLocksCountFromWhenAllAreHeld"}},
	},
	{
		Name: "block-reused", About: "every lease that is passed on within the process has the same fence",
		Edits: []overlay.Edit{line("next-fence", "")},
		Tests: []Test{{"virtual", "TestALeaseThatIsPassedOnToWhoGivesUpGoesOn"}},
	},
	{
		Name: "past-the-reserved", About: "a lease is passed on within the process with fences that were not reserved",
		Edits: []overlay.Edit{part("reserved-fences", "!h.hasFence() && h.flying == 0", "false")},
		Tests: []Test{{"virtual", "TestALockIsNotPassedOnPastTheReservedFences"}},
	},
	{
		Name: "passed-on-when-over", About: "a lease is passed on within the process after its deadline",
		Edits: []overlay.Edit{
			line("look-at-release", ""),
			part("lost-at-release", "h.state == over", "false"),
			line("pass-on", "if l.ended() != lock.ErrReleased {"),
			part("deadline-by-clock", "!l.over", "false"),
			part("passing-time", "> maxPassing", "< 0"),
		},
		Tests: []Test{{"virtual", "TestALeaseThatASuspensionOutlivedIsNotPassedOn"}},
	},
	{
		Name: "extended-passed-on", About: "a lease is passed on although its holder has extended it beyond the TTL",
		Edits: []overlay.Edit{line("extension-asked", "")},
		Tests: []Test{{"virtual", "TestALeaseThatIsBeingExtendedIsNotPassedOn"}},
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
		Name: "goroutine-left", About: "a client's scheduler outlives it",
		Edits: []overlay.Edit{line("close-schedule", "")},
		Tests: []Test{{"virtual", "TestALockThatIsPassedOnIsAskedForInTime"}},
		Rules: []campaign.Rule{campaign.Leak},
	},
}
