package mutants

import "github.com/holdfast-go/holdfast/tests/internal/campaign"

var voteTests = []Test{{"../internal/pipe", "TestWhichNodesCount"}}

// Quorums and their nodes.
var quorum = []Mutant{
	mutant("half-a-quorum", "half of the nodes are enough",
		by("quorum.TestHeldWithoutAMajority"), part("majority", "n/2 + 1", "n / 2")).
		hunted(campaign.Quorum{}, nil, campaign.Overlap, campaign.Fences),
	mutant("no-incarnation", "a node that restarted, or was emptied, grants at once",
		by("scripts.TestNodes"), insert("node-refusal", "if true then\n  return nil\nend")).
		hunted(campaign.Quorum{}, []string{"wiped-restart", "flushall"}, campaign.Overlap, campaign.Fences),
	mutant("fence-told-nobody", "nodes with lower counters are not told the fence",
		by("quorum.TestCloseWhileNodesAreToldAFence"), line("fence-known", "if known >= 0 {")),
	// In any history, a process that is so late is past its own deadline. So tests ask the node itself.
	mutant("second-phase-unowned", "a node takes a fence without checking whose the lock is by then",
		by("scripts.TestNodes", "quorum.TestNodeLosesTheLockBeforeItIsToldAFence"), line("node-fence-owner", "")),
	mutant("tickets-unread", "a node grants a lock although an earlier ticket waits for it",
		by("scripts.TestNodes"), line("ticket-kept", "")),
	mutant("tickets-overtaken", "a ticket is withdrawn while a vote that nobody waits for may still bring it",
		by("quorum.TestVotesArriveAfterTheWaiterGaveUp"), line("ticket-overtaken", "if false {")),
	mutant("held-by-one-node", "a quorum's lock counts as held if one node names a holder",
		by("quorum.TestHeldIsWhatAMajoritySays"), part("named-by-a-majority", "most >= q.need", "most >= 1")),
	mutant("restarted-majority", "the counters of a restarted majority are raised although not all nodes have answered",
		by("quorum.TestRestartedTogether"), part("all-have-answered", "good+len(lost) == len(q.clients) && ", "")),
	mutant("counter-forgotten", "a node that lost its fence counter is not told the others' counters",
		by("scripts.TestNodes"), line("raise-counter", "local raised = read_counter() or 0")),
	mutant("vote-of-any-node", "whatever node sets a lock has voted for it",
		by("quorum.TestAVoteThatDoesNotCount"), part("vote-counts", "isVote && counted && node", "isVote && counted || node")),
	mutant("vote-of-one-behind", "the vote of a node counts whose counter has to be raised",
		voteTests, part("vote-marks", ", !bytes.Equal(s.caughtUp, mark[1])", "")),
	mutant("vote-in-quarantine", "the vote of a node counts that is in quarantine",
		voteTests, part("vote-quarantine", "ready > now", "ready < 0")),
	mutant("vote-of-a-longer-term", "a node does not note that leases last longer than any before",
		voteTests, part("vote-quarantine", "longest < quarantine.Milliseconds()", "longest < 0")),
	mutant("vote-of-a-replica", "the vote of a replica counts, and that of a node with replicas",
		voteTests, part("vote-master", "bytes.HasPrefix(s.info, lonelyMaster)", "true")),
	mutant("vote-of-the-restarted", "the vote of a node counts that has restarted",
		voteTests, line("vote-incarnation", "true")),
	mutant("vote-kept", "a node that sets a lock, but does not count, keeps it",
		by("quorum.TestAVoteThatDoesNotCount"), insert("vote-released", "if true {\n\treturn nil\n}")),
	mutant("vote-waits", "whoever reads the answers waits for the release of a vote that is no grant",
		by("quorum.TestVotesWhoseFencesDoNotFit"), part("vote-clear", " && v.l.isAsAsked(v.call)", "")),
	mutant("vote-refused-again", "a node that refuses a command of a vote is asked by it each time",
		by("quorum.TestANodeThatRefusesVotes"), part("vote-scripted", "!call.Counts", "!call.Counts && call.Done"),
		line("transactions-avoided", "")),
	mutant("vote-makes-a-counter", "a vote makes a counter on a node that has lost it",
		by("quorum.TestAVoteThatDoesNotCount"), part("vote-counter", "calls[0].Kind == Vote", "false")),
	mutant("vote-not-answered", "a vote that was not answered counts as refused",
		by("quorum.TestAVoteComesAfterItsRelease"), part("vote-unanswered", "exec.MayBeDone(v.err)", "false")),
	mutant("partial-votes", "nodes are asked by their own commands although not all vote",
		by("quorum.TestOneRoundWithoutANode"), line("partial-round", "")),
	mutant("vote-awaited-forever", "a vote that comes after its round is not given up",
		by("quorum.TestALoneVoteIsNotAnswered"), line("vote-late", "")),
}
