package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

var voteTests = []Test{{"../internal/pipe", "TestWhichNodesCount"}}

// Quorums and their nodes.
var quorum = []Mutant{
	{
		Name: "half-a-quorum", About: "half of the nodes are enough",
		Edits:   []overlay.Edit{part("majority", "n/2 + 1", "n / 2")},
		Tests:   []Test{{"quorum", "TestHeldWithoutAMajority"}},
		Subject: campaign.Quorum{},
		Rules:   []campaign.Rule{campaign.Overlap, campaign.Fences},
	},
	{
		Name: "no-incarnation", About: "a node that restarted, or was emptied, grants at once",
		Edits:   []overlay.Edit{insert("node-refusal", "if true then\n  return nil\nend")},
		Tests:   []Test{{"scripts", "TestNodes"}},
		Subject: campaign.Quorum{},
		Kinds:   []string{"wiped-restart", "flushall"}, Rules: []campaign.Rule{campaign.Overlap, campaign.Fences},
	},
	{
		Name: "fence-told-nobody", About: "nodes with lower counters are not told the fence",
		Edits: []overlay.Edit{line("fence-known", "if known >= 0 {")},
		Tests: []Test{{"quorum", "TestCloseWhileNodesAreToldAFence"}},
	},
	{
		// In any history, a process that is so late is past its own deadline. So tests ask the node itself.
		Name: "second-phase-unowned", About: "a node takes a fence without checking whose the lock is by then",
		Edits: []overlay.Edit{line("node-fence-owner", "")},
		Tests: []Test{{"scripts", "TestNodes"}, {"quorum", "TestNodeLosesTheLockBeforeItIsToldAFence"}},
	},
	{
		Name: "tickets-unread", About: "a node grants a lock although an earlier ticket waits for it",
		Edits: []overlay.Edit{line("ticket-kept", "")},
		Tests: []Test{{"scripts", "TestNodes"}},
	},
	{
		Name: "tickets-overtaken", About: "a ticket is withdrawn while a vote that nobody waits for may still bring it",
		Edits: []overlay.Edit{line("ticket-overtaken", "if false {")},
		Tests: []Test{{"quorum", "TestVotesArriveAfterTheWaiterGaveUp"}},
	},
	{
		Name: "held-by-one-node", About: "a quorum's lock counts as held if one node names a holder",
		Edits: []overlay.Edit{part("named-by-a-majority", "most >= q.need", "most >= 1")},
		Tests: []Test{{"quorum", "TestHeldIsWhatAMajoritySays"}},
	},
	{
		Name: "restarted-majority", About: "the counters of a restarted majority are raised although not all nodes have answered",
		Edits: []overlay.Edit{part("all-have-answered", "good+len(lost) == len(q.clients) && ", "")},
		Tests: []Test{{"quorum", "TestRestartedTogether"}},
	},
	{
		Name: "counter-forgotten", About: "a node that lost its fence counter is not told the others' counters",
		Edits: []overlay.Edit{line("raise-counter", "local raised = read_counter() or 0")},
		Tests: []Test{{"scripts", "TestNodes"}},
	},
	{
		Name: "vote-of-any-node", About: "whatever node sets a lock has voted for it",
		Edits: []overlay.Edit{part("vote-counts", "isVote && counted && node", "isVote && counted || node")},
		Tests: []Test{{"quorum", "TestAVoteThatDoesNotCount"}},
	},
	{
		Name: "vote-of-one-behind", About: "the vote of a node counts whose counter has to be raised",
		Edits: []overlay.Edit{part("vote-marks", ", !bytes.Equal(s.caughtUp, mark[1])", "")}, Tests: voteTests,
	},
	{
		Name: "vote-in-quarantine", About: "the vote of a node counts that is in quarantine",
		Edits: []overlay.Edit{part("vote-quarantine", "ready > now", "ready < 0")}, Tests: voteTests,
	},
	{
		Name: "vote-of-a-longer-term", About: "a node does not note that leases last longer than any before",
		Edits: []overlay.Edit{part("vote-quarantine", "longest < quarantine.Milliseconds()", "longest < 0")}, Tests: voteTests,
	},
	{
		Name: "vote-of-a-replica", About: "the vote of a replica counts, and that of a node with replicas",
		Edits: []overlay.Edit{part("vote-master", "bytes.HasPrefix(s.info, lonelyMaster)", "true")}, Tests: voteTests,
	},
	{
		Name: "vote-of-the-restarted", About: "the vote of a node counts that has restarted",
		Edits: []overlay.Edit{line("vote-incarnation", "true")}, Tests: voteTests,
	},
	{
		Name: "vote-kept", About: "a node that sets a lock, but does not count, keeps it",
		Edits: []overlay.Edit{insert("vote-released", "if true {\n\treturn nil\n}")},
		Tests: []Test{{"quorum", "TestAVoteThatDoesNotCount"}},
	},
	{
		Name: "vote-waits", About: "whoever reads the answers waits for the release of a vote that is no grant",
		Edits: []overlay.Edit{part("vote-clear", " && v.l.isGrant(context.Background(), v.pipe, v.call)", "")},
		Tests: []Test{{"quorum", "TestVotesWhoseFencesDoNotFit"}},
	},
	{
		Name: "vote-refused-again", About: "a node that refuses a command of a vote is asked by it each time",
		Edits: []overlay.Edit{part("vote-scripted", "!call.Counts", "!call.Counts && call.Done"), line("transactions-avoided", "")},
		Tests: []Test{{"quorum", "TestANodeThatRefusesVotes"}},
	},
	{
		Name: "vote-makes-a-counter", About: "a vote makes a counter on a node that has lost it",
		Edits: []overlay.Edit{part("vote-counter", "calls[0].Kind == Vote", "false")},
		Tests: []Test{{"quorum", "TestAVoteThatDoesNotCount"}},
	},
	{
		Name: "vote-not-answered", About: "a vote that was not answered counts as refused",
		Edits: []overlay.Edit{part("vote-unanswered", "exec.MayBeDone(v.err)", "false")},
		Tests: []Test{{"quorum", "TestAVoteComesAfterItsRelease"}},
	},
	{
		Name: "partial-votes", About: "nodes are asked by their own commands although not all vote",
		Edits: []overlay.Edit{line("partial-round", "")},
		Tests: []Test{{"quorum", "TestOneRoundWithoutANode"}},
	},
	{
		Name: "vote-awaited-forever", About: "a vote that comes after its round is not given up",
		Edits: []overlay.Edit{line("vote-late", "")},
		Tests: []Test{{"quorum", "TestALoneVoteIsNotAnswered"}},
	},
}
