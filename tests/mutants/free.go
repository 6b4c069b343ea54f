package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// The free path: mutexes that the server's own commands acquire and release, the pipe that carries these, and locks whose value has
// no fence yet.
var free = []Mutant{
	{
		Name: "held-is-taken", About: "an acquire by the server's own commands overwrites a lock that is held",
		Edits: []overlay.Edit{part("set-words", "*6", "*5"), part("set-nx", `$2\r\nNX\r\n`, "")},
		Tests: []Test{{"virtual", "TestEachLockHasItsOwnAnswer"}},
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "set-past-waiters", About: "a lock that was set although others queue for it is believed in",
		Edits: []overlay.Edit{line("barging", "case false:")},
		Tests: []Test{{"virtual", "TestALockThatIsSetPastAQueue"}},
		Kinds: paused, Rules: []campaign.Rule{campaign.Order},
	},
	{
		Name: "set-past-waiters-in-company", About: "a lock that was set together with others is believed in although somebody queues for it",
		Edits: []overlay.Edit{part("barging", "(call.Others == 0 || l.isAwaited(ctx, p))", "call.Others == 0")},
		Tests: []Test{{"virtual", "TestALockThatIsSetPastAQueue"}},
	},
	{
		Name: "first-queue-only", About: "of locks that are set together only the first one's queue is looked for",
		Edits: []overlay.Edit{part("queues-asked", "1+len(calls)", "2"), line("queue-asked", "if c == calls[0] {\n\tb = appendWord(b, c.Queue)\n}")},
		Tests: []Test{{"../internal/pipe", "TestAcquiresShareATransaction"}, {"virtual", "TestALockThatIsSetPastAQueue"}},
	},
	{
		Name: "token-not-ended", About: "a token whose SET was no grant is left what it has",
		Edits: []overlay.Edit{line("ended-token", "err = nil")},
		Tests: []Test{{"virtual", "TestALockThatIsSetPastAQueue"}},
		Kinds: paused, Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "unanswered-is-refused", About: "a SET that was not answered counts as refused",
		Edits: []overlay.Edit{part("unanswered-set", "exec.MayBeDone(err)", "err == ctx.Err()")},
		Tests: []Test{{"virtual", "TestASetThatIsNotAnswered"}},
	},
	{
		Name: "set-beside-an-error", About: "a lock that was set is left if another command of its transaction fails",
		Edits: []overlay.Edit{part("refused-set", " && !call.Done", "")},
		Tests: []Test{{"virtual", "TestATransactionThatIsDoneInPart"}},
	},
	{
		Name: "set-without-transaction", About: "a lock that was set is left if the server refuses MULTI",
		Edits: []overlay.Edit{part("set-alone", "i < len(calls)", "i < 0")},
		Tests: []Test{{"../internal/pipe", "TestAcquiresShareATransaction"}},
	},
	{
		Name: "given-up-and-kept", About: "what a SET has acquired is kept if its caller gives up just then",
		Edits: []overlay.Edit{line("end-given-up", "")},
		Tests: []Test{{"virtual", "TestASetWhoseCallerGivesUp"}},
	},
	{
		Name: "left-and-sent", About: "an acquire whose caller has given up is sent all the same",
		Edits: []overlay.Edit{part("left-unsent", "c.left || ", "")},
		Tests: []Test{{"../internal/pipe", "TestACallerThatGivesUpReturnsAtOnce"}},
	},
	{
		Name: "sent-counts-as-unsent", About: "a call whose caller gives up counts as never sent",
		Edits: []overlay.Edit{line("never-sent", "case true:")},
		Tests: []Test{{"virtual", "TestASetWhoseCallerGivesUp"}},
	},
	{
		Name: "broken-counts-as-unsent", About: "what was under way when its connection broke counts as never sent",
		Edits: []overlay.Edit{line("broken-in-flight", "c.finish(NotSent{err})")},
		Tests: []Test{{"../internal/pipe", "TestAServerThatCloses"}, {"virtual", "TestASetThatIsNotAnswered"}},
	},
	{
		Name: "ghost-forgotten", About: "what a late SET gives to a token that has ended is left",
		Edits: []overlay.Edit{line("ghost-noted", "")},
		Tests: []Test{{"virtual", "TestASetThatIsNotAnswered"}},
	},
	{
		Name: "ghost-left", About: "a token that has ended is released only once, though a late SET may follow",
		Edits: []overlay.Edit{part("ghost-left", "a.ghost != 0 &&", "a.ghost < 0 &&")},
		Tests: []Test{{"virtual", "TestASetThatIsNotAnswered"}},
	},
	{
		Name: "ghost-of-who-gave-up-left", About: "what a late SET gives to a token whose caller has given up is left",
		Edits: []overlay.Edit{line("ghost-abandoned", "if false {")},
		Tests: []Test{{"virtual", "TestASetWhoseCallerGivesUp"}},
	},
	{
		Name: "ghost-released-once", About: "the releases of a token that has ended stop at the first answer",
		Edits: []overlay.Edit{part("ghost-released", "!= codec.Released", `== ""`)},
		Tests: []Test{{"virtual", "TestASetThatIsNotAnswered"}},
	},
	{
		Name: "settled-released-on", About: "releases go on for a token whose SET was answered after its caller gave up",
		Edits: []overlay.Edit{part("ghost-released", "!settled", "(true || settled)")},
		Tests: []Test{{"virtual", "TestASetThatIsAnsweredAfterItsCallerGaveUp"}},
	},
	{
		Name: "vote-left-by-close", About: "a vote that a hanging node carries out after its client has closed is left",
		Edits: []overlay.Edit{line("release-behind", "if false {")},
		Tests: []Test{{"quorum", "TestAClientClosesWhileANodeHangs"}},
	},
	{
		Name: "ghosts-released-at-once", About: "after an outage all tokens are released at once whose SET may still be carried out",
		Edits: []overlay.Edit{part("ghosts-bounded", "c.serverOf(l).reclaimers.run(", "(&reclaimers{limiter: exec.Limiter{Tasks: &c.Tasks, Most: 1 << 20}, closing: c.Closing}).run(")},
		Tests: []Test{{"virtual", "TestManySetsThatAreNotAnswered"}},
	},
	{
		Name: "ghosts-in-step", About: "after an outage the tokens whose SET may still be carried out are released in the same moment",
		Edits: []overlay.Edit{part("ghosts-spread", "schedule.Jitter(pause, 20)", "schedule.Jitter(pause, 0)")},
		Tests: []Test{{"virtual", "TestManySetsThatAreNotAnswered"}},
	},
	{
		Name: "relative-expiry", About: "a SET that comes late holds the lock for a TTL from then on",
		Edits: []overlay.Edit{part("set-nx", "$4\\r\\nPXAT", "$2\\r\\nPX"), line("set-expiry", "b = appendNumber(b, c.TTL.Milliseconds())")},
		Tests: []Test{{"virtual", "TestASetThatComesAfterItsExpiry"}},
	},
	{
		Name: "long-leases-kept", About: "a lock that expires long after its TTL, because the server's clock was misjudged, is believed in",
		Edits: []overlay.Edit{part("late-expiry", "left > term+leeway, ", "")},
		Tests: []Test{{"virtual", "TestAMisjudgedServerClock"}},
	},
	{
		Name: "short-leases-kept", About: "a lease with bounds is much shorter than its TTL, because the server's clock was misjudged",
		Edits: []overlay.Edit{part("late-expiry", "left < term-leeway && !l.Set.Unbounded(), ", "")},
		Tests: []Test{{"virtual", "TestAMisjudgedServerClock"}},
	},
	{
		Name: "set-lasts-for-its-ttl", About: "the deadline of a lock that was set counts on the TTL, and not on what the server says that is left",
		Edits: []overlay.Edit{part("set-deadline", "call.Left,", "a.l.Set.Term(),")},
		Tests: []Test{{"virtual", "TestAMisjudgedServerClock"}},
	},
	{
		Name: "set-lasts-from-its-reply", About: "the deadline of a lock that was set counts from the reply, and not from the sending",
		Edits: []overlay.Edit{part("set-deadline", "call.Sent, ", "call.Heard, ")},
		Tests: []Test{{"virtual", "TestASetThatIsAnsweredLate"}},
	},
	{
		Name: "clock-never-corrected", About: "a connection keeps its first estimate of the server's clock",
		Edits: []overlay.Edit{line("pipe-clock", "_ = sent")},
		Tests: []Test{{"virtual", "TestAMisjudgedServerClock"}},
	},
	{
		Name: "fence-of-the-next-ms", About: "a fence is believed although more than a thousand were issued in its ms",
		Edits: []overlay.Edit{part("late-expiry", ", call.Fence.Seq >= 1000", "")},
		Tests: []Test{{"virtual", "TestManyFencesInAMillisecond"}},
	},
	{
		Name: "set-in-strict-mode", About: "a lock is acquired by the server's own commands in Strict mode, in which a server may be in quarantine",
		Edits: []overlay.Edit{part("free-scope", " || c.Config.Strict", "")},
		Tests: []Test{{"virtual", "TestOnlyPlainMutexesAreSet"}},
	},
	{
		Name: "set-without-waiting-for-replicas", About: "a lock that replicas have to confirm is acquired without that",
		Edits: []overlay.Edit{part("free-scope", " || l.Set.Durable", "")},
		Tests: []Test{{"virtual", "TestOnlyPlainMutexesAreSet"}},
	},
	{
		Name: "any-lock-set", About: "locks of other kinds are acquired by the commands for a mutex",
		Edits: []overlay.Edit{part("free-scope", "!l.Set.Kind.Native || ", "")},
		Tests: []Test{{"virtual", "TestOnlyPlainMutexesAreSet"}},
	},
	{
		Name: "command-tried-again-and-again", About: "every acquire tries a command that the server lacks",
		Edits: []overlay.Edit{line("transactions-avoided", "")},
		Tests: []Test{{"virtual", "TestAServerThatLacksACommand"}},
	},
	{
		Name: "set-without-a-command", About: "a lock that was set is left if the server carries out a transaction without a command that it has refused",
		Edits: []overlay.Edit{part("transaction-in-part", " || executed", " || executed && false")},
		Tests: []Test{{"virtual", "TestAServerThatLacksACommand"}},
	},
	{
		Name: "command-given-up", About: "a command that the server has lacked is not tried again for an hour",
		Edits: []overlay.Edit{part("transactions-avoided", "avoidedFor", "60*avoidedFor")},
		Tests: []Test{{"virtual", "TestAServerThatLacksACommand"}},
	},
	{
		Name: "refusal-in-other-words-forgotten", About: "every acquire tries a transaction that a proxy refuses in words of its own",
		Edits: []overlay.Edit{part("transaction-refused", `strings.HasPrefix(err.Error(), "ERR ") || `, "")},
		Tests: []Test{{"behaviour", "TestAProxyWithoutTransactions"}},
	},
	{
		Name: "slot-on-the-move-taken-for-a-proxy", About: "a master that sends the client to another for one lock counts as one without transactions",
		Edits: []overlay.Edit{
			part("lacking-elsewhere", "!resp.Is(err, elsewhere...) && ", ""),
			part("transaction-refused", `(strings.HasPrefix(err.Error(), "ERR ") || strings.Contains(err.Error(), "command"))`, `strings.Contains(err.Error(), " ")`),
		},
		Tests: []Test{{"topology", "TestLocksInASlotOnTheMove"}},
	},
	{
		Name: "slot-on-the-move-taken-for-a-lack", About: "a master that sends the client to another for one release counts as one without DELIFEQ",
		Edits: []overlay.Edit{part("lacking-elsewhere", "!resp.Is(err, elsewhere...) && ", "")},
		Tests: []Test{{"../internal/exec", "TestACommandThatIsLacking"}},
	},
	{
		Name: "transaction-cut-again-and-again", About: "every acquire tries a transaction at which a proxy closes the connection",
		Edits: []overlay.Edit{part("transaction-unanswered", "t.answered.Load()", "true")},
		Tests: []Test{{"behaviour", "TestAProxyWithoutTransactions"}},
	},
	{
		Name: "vote-cut-again-and-again", About: "every vote tries a transaction at which a proxy closes the connection",
		Edits: []overlay.Edit{line("vote-transaction", "")},
		Tests: []Test{{"quorum", "TestNodesBehindProxiesWithoutTransactions"}},
	},
	{
		Name: "failed-command-taken-for-a-proxy", About: "a transaction of which a command fails counts as refused",
		Edits: []overlay.Edit{part("transaction-done", " || call.Now != 0", "")},
		Tests: []Test{{"behaviour", "TestATransactionWithoutAFence"}},
	},
	{
		Name: "transaction-lost-once", About: "after the first transaction, which was not answered in an outage, scripts acquire all locks",
		Edits: []overlay.Edit{line("transaction-lost-once", "if false {")},
		Tests: []Test{{"virtual", "TestTheFirstTransactionIsLost"}},
	},
	{
		Name: "transactions-given-up", About: "after a transaction that was not answered in a second outage, scripts acquire all locks",
		Edits: []overlay.Edit{part("transaction-unanswered", "fate != exec.Unknown || t.answered.Load()", "fate != exec.Unknown")},
		Tests: []Test{{"virtual", "TestTheFirstTransactionIsLost"}},
	},
	{
		Name: "answers-in-another-order", About: "of locks that were asked for together each gets another's answer",
		Edits: []overlay.Edit{insert("set-answer", "c = calls[(len(calls)-1)/2]")},
		Tests: []Test{{"virtual", "TestEachLockHasItsOwnAnswer"}},
	},
	{
		Name: "groups-mixed", About: "locks of different slots share commands",
		Edits: []overlay.Edit{part("shared-commands", " && c.Fences == first.Fences", "")},
		Tests: []Test{{"../internal/pipe", "TestGroupsShareNothing"}},
	},
	{
		Name: "deletion-believed", About: "a lock that the server did not delete, because somebody waits, counts as released",
		Edits: []overlay.Edit{part("deleted-answer", `string(text) == "1"`, "true")},
		Tests: []Test{{"../internal/pipe", "TestReleasesByCommand"}},
	},
	{
		Name: "left-by-the-batch", About: "of locks that are released together another one is handed over than the one that somebody waits for",
		Edits: []overlay.Edit{part("left-answer", "i-1", "0")},
		Tests: []Test{{"../internal/pipe", "TestReleasesShareAScript"}},
	},
	{
		Name: "released-before-late-acquire", About: "a lock is deleted without a tombstone although an acquire of its token may still come",
		Edits: []overlay.Edit{part("release-with-tombstone", "tombstone == 0 && ", "")},
		Tests: []Test{{"virtual", "TestALateAcquireOfAReleasedLock"}},
	},
	{
		Name: "own-release-taken-for-a-loss", About: "a release whose reply was lost, and which finds the lock gone, says that the lease was lost",
		Edits: []overlay.Edit{part("release-unanswered", "exec.MayBeDone(err)", "false")},
		Tests: []Test{{"virtual", "TestAReleaseThatIsNotAnswered"}},
	},
	{
		Name: "late-reply", About: "a connection is used again after a call that timed out, and its reply is the next call's",
		Edits: []overlay.Edit{line("late-reply", "if isTimeout(err) {\n\town.finish(errDeadline)\n\tl.head++\n} else {\n\tl.fail(err)\n}")},
		Tests: []Test{{"../internal/pipe", "TestAHungConnectionIsReplaced"}},
	},
	{
		Name: "hung-connection-kept", About: "a connection that hangs is used again if its callers give up before they see that",
		Edits: []overlay.Edit{part("hung-line", "l.head < len(l.flight)", "false"), part("slow-line", "l.head < len(l.flight)", "false")},
		Tests: []Test{{"../internal/pipe", "TestAConnectionIsReplacedThatHungForOthers"}},
	},
	{
		Name: "slow-connection-kept", About: "new calls go behind one that has not been answered for long",
		Edits: []overlay.Edit{part("slow-line", "l.head < len(l.flight)", "false")},
		Tests: []Test{{"../internal/pipe", "TestASlowConnectionIsLeft"}},
	},
	{
		Name: "answered-kept", About: "a connection that is never idle keeps all calls that were answered",
		Edits: []overlay.Edit{part("answered-kept", "l.head > len(l.flight)/2", "false")},
		Tests: []Test{{"../internal/pipe", "TestAConnectionThatIsNeverIdleForgetsItsCalls"}},
	},
	{
		Name: "reader-not-recalled", About: "what a caller that gave up has left unwritten waits for the reply to it",
		Edits: []overlay.Edit{line("reader-recalled", "case false:")},
		Tests: []Test{{"../internal/pipe", "TestAWriterThatGivesUpIsFollowedByTheReader"}},
	},
	{
		Name: "reader-recalled-in-vain", About: "a connection breaks when the caller that reads is to write",
		Edits: []overlay.Edit{part("reader-breaks", "(ctx.Err() != nil || l.recalled)", "ctx.Err() != nil")},
		Tests: []Test{{"../internal/pipe", "TestAWriterThatGivesUpIsFollowedByTheReader"}},
	},
	{
		Name: "first-waits-longer", About: "a caller waits for its answer for as long as a later one that reads",
		Edits: []overlay.Edit{part("first-deadline", "l.flight[l.head].calls[0].deadline", "own.deadline")},
		Tests: []Test{{"../internal/pipe", "TestTheReaderWaitsForTheFirst"}},
	},
	{
		Name: "next-use-interrupted", About: "a caller that gives up just when it is answered interrupts whoever uses its call then",
		Edits: []overlay.Edit{part("interrupted-use", " && c.use == use", ""), part("interrupted-read", " && c.use == use", "")},
		Tests: []Test{{"../internal/pipe", "TestACallIsUsedAgainWhenItsCallerHasGivenUp"}},
	},
	{
		Name: "late-answers-ignored", About: "if those who ask a server that hangs give up soon, nobody learns that it does not answer",
		Edits: []overlay.Edit{part("late-told", "c.Late != nil", "false")},
		Tests: []Test{{"../internal/pipe", "TestACallIsToldOfWhoseCallerGaveUp"}, {"virtual", "TestAServerIsLostForThoseWhoGiveUpSoon"}},
	},
	{
		Name: "queued-for-ever", About: "a connection is used again on which the server queues all commands, since it has no EXEC",
		Edits: []overlay.Edit{part("no-exec", "begun", "false && begun")},
		Tests: []Test{{"../internal/pipe", "TestAServerWithoutEXEC"}},
	},
	{
		Name: "sharers-searched", About: "in a Cluster, all calls are searched for each one's group",
		Edits: []overlay.Edit{part("sharers-ahead", "l.pipe.InCluster", "false")},
		Tests: []Test{{"../internal/pipe", "TestSharersAreNear"}},
	},
	{
		Name: "surplus-kept", About: "what a server sent without having been asked is the reply to the next call",
		Edits: []overlay.Edit{line("surplus", "return nil")},
		Tests: []Test{{"../internal/pipe", "TestRepliesThatBreakTheConnection"}},
	},
	{
		Name: "replica-asked-again", About: "a connection to a server that is no master any more is kept",
		Edits: []overlay.Edit{line("concerns-server", "_ = concernsServer")},
		Tests: []Test{{"../internal/pipe", "TestAServerThatIsNoMaster"}},
	},
	{
		Name: "contended-without-bound", About: "a client never forgets a lock that others have held",
		Edits: []overlay.Edit{line("contended-bound", "if r.newer == nil {")},
		Tests: []Test{{"../internal/engine", "TestContendedLocksAreRememberedForAsLongAsTheyAreAskedFor"}},
	},
	{
		Name: "second-left-kept", About: "of leases that a batch did not renew only the first counts as not renewed",
		Edits: []overlay.Edit{line("next-left", "r.Left = nil")},
		Tests: []Test{{"../internal/codec", "TestItemsThatABatchLeft"}},
	},
	{
		Name: "batch-frees-anybodys", About: "a batch deletes locks without checking whose they are",
		Edits: []overlay.Edit{part("batch-release-owner", "string.find(value, ARGV[i], 1, true) == 1 and ", "")},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "batch-mark-ignored", About: "a batch deletes locks for which others wait",
		Edits: []overlay.Edit{part("batch-release-owner", " and string.sub(value, -1) ~= '+'", "")},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "unmarked-not-served", About: "the release of a lock that was set past a waiter serves nobody",
		Edits: []overlay.Edit{part("release-fresh", " and string.sub(value, #mine + 1, #mine + 2) ~= '0:'", "")},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "passed-in-silence", About: "a release that cannot serve the waiter that its SET has passed says that all is well",
		Edits: []overlay.Edit{line("release-barger", "")},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "fence-unwritten", About: "a renewal leaves a lock without a fence",
		Edits: []overlay.Edit{line("renew-fresh", "")},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "first-renewal-for-ever", About: "the renewal that writes the fence takes the expiry away",
		Edits: []overlay.Edit{part("renew-fresh", ", 'KEEPTTL'", "")},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "batch-first-renewal-for-ever", About: "a renewal in a batch that writes the fence takes the expiry away",
		Edits: []overlay.Edit{part("batch-renew-fresh", ", 'KEEPTTL'", "")},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "first-renewal-unmarks", About: "the renewal that writes the fence forgets that somebody waits",
		Edits: []overlay.Edit{part("renew-fresh", "string.sub(value, #fresh + 1)", "(string.gsub(string.sub(value, #fresh + 1), '%+$', ''))")},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "batch-first-renewal-unmarks", About: "a renewal in a batch that writes the fence forgets that somebody waits",
		Edits: []overlay.Edit{part("batch-renew-fresh", "string.sub(value, #fresh + 1)", "(string.gsub(string.sub(value, #fresh + 1), '%+$', ''))")},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "renews-anybodys-fresh", About: "a renewal takes any lock without a fence",
		Edits: []overlay.Edit{line("renew-own", "if string.find(value, '^hf2:[^:]*:0:') then")},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "batch-renews-anybodys-fresh", About: "a renewal in a batch takes any lock without a fence",
		Edits: []overlay.Edit{line("batch-renew-own", "local fresh = (string.match(value, '^hf2:[^:]*:') or '?') .. '0:'")},
		Tests: []Test{{"scripts", "TestBatchScripts"}},
	},
	{
		Name: "fresh-not-adopted", About: "a ticket for a lock without a fence is refused",
		Edits: []overlay.Edit{part("adopt-compare", " and string.sub(value, 1, #fresh) ~= fresh", "")},
		Tests: []Test{{"scripts", "TestAdopt"}},
	},
	{
		Name: "fresh-not-reasserted", About: "a holder whose lock has no fence yet is told that another has it",
		Edits: []overlay.Edit{part("reassert-own", " or string.sub(value, 1, #fresh) == fresh", "")},
		Tests: []Test{{"scripts", "TestScripts"}},
	},
	{
		Name: "unsent-is-unanswered", About: "a request that was given up before it was sent counts as one that may be carried out",
		Edits: []overlay.Edit{part("left-before-sent", "errors.Is", "false && errors.Is")},
		Tests: []Test{{"../internal/exec", "TestWhatWasGivenUpBeforeItWasSent"}},
	},
	{
		Name: "caller-taken-for-an-outage", About: "a server is lost as soon as a caller gives up while a connection is being made",
		Edits: []overlay.Edit{line("caller-left", "case err == nil || err != over:")},
		Tests: []Test{{"virtual", "TestACallerGivesUpBeforeThereIsAConnection"}},
	},
	{
		Name: "unreachable-unnoticed", About: "a server is not lost if a caller gives up before its connection cannot be made",
		Edits: []overlay.Edit{line("left-unopened", "_ = sent")},
		Tests: []Test{{"virtual", "TestACallerGivesUpBeforeThereIsAConnection"}},
	},
	{
		Name: "started-and-not-written", About: "a call that nobody waits for is written only if somebody else has a reason to write",
		Edits: []overlay.Edit{line("started-driven", "")},
		Tests: []Test{{"../internal/pipe", "TestCallsThatAreStarted"}},
	},
	{
		Name: "told-after-leaving", About: "a call is told of that was left",
		Edits: []overlay.Edit{part("started-left", " && !c.left", "")},
		Tests: []Test{{"../internal/pipe", "TestCallsThatAreStarted"}},
	},
	{
		Name: "started-and-forgotten", About: "calls that nobody waits for are not told that their connection broke",
		Edits: []overlay.Edit{part("started-broken", "started != nil", "false")},
		Tests: []Test{{"../internal/pipe", "TestStartedCallsOnAConnectionThatBreaks"}},
	},
	{
		Name: "buffers-kept", About: "a connection keeps what memory its largest batch took",
		Edits: []overlay.Edit{line("buffer-kept", "*u = max(use(len(b)), *u)")},
		Tests: []Test{{"../internal/pipe", "TestLargeBuffersAreKeptWhileTheyAreUsed"}},
	},
}
