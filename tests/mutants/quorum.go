package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

var shortVoteTests = []Test{{"scripts", "TestTheShortWayOfAVoteDoesTheSame"}}

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
		Edits: []overlay.Edit{line("node-fence-owner", "if false then")},
		Tests: []Test{{"scripts", "TestNodes"}, {"quorum", "TestNodeLosesTheLockBeforeItIsToldAFence"}},
	},
	{
		Name: "tickets-unread", About: "a node grants a lock although an earlier ticket waits for it",
		Edits: []overlay.Edit{line("ticket-kept", "if false then")},
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
		Edits: []overlay.Edit{line("raise-counter", "local counter = read_counter() or 0")},
		Tests: []Test{{"scripts", "TestNodes"}},
	},
	{
		Name: "short-vote-of-one-behind", About: "the short way of a vote grants a lock of a node whose counter has to be raised",
		Edits: []overlay.Edit{part("node-short-counts", "id ~= known[1] or ", "")}, Tests: shortVoteTests,
	},
	{
		Name: "short-vote-in-quarantine", About: "the short way of a vote grants a lock in quarantine",
		Edits: []overlay.Edit{part("node-short-counts", " or tonumber(ready) > now", "")}, Tests: shortVoteTests,
	},
	{
		Name: "short-vote-of-a-longer-term", About: "the short way of a vote does not note that leases last longer than any before",
		Edits: []overlay.Edit{part("node-short-counts", " or tonumber(longest) < tonumber(string.match(flags, 's(%d+)%+'))", "")}, Tests: shortVoteTests,
	},
	{
		Name: "short-vote-of-a-replica", About: "the short way of a vote grants a lock of a replica, and of a node with replicas",
		Edits: []overlay.Edit{line("node-short-master", "if false then")}, Tests: shortVoteTests,
	},
	{
		Name: "short-vote-of-the-restarted", About: "the short way of a vote grants a lock of a node that has restarted",
		Edits: []overlay.Edit{line("node-short-incarnation", "if false then")}, Tests: shortVoteTests,
	},
	{
		Name: "short-vote-late", About: "the short way of a vote grants a lock to a caller that has given up",
		Edits: []overlay.Edit{part("node-short-free", "now >= tonumber(ARGV[4]) or ", "")}, Tests: shortVoteTests,
	},
	{
		Name: "short-vote-of-one-held", About: "the short way of a vote grants a lock that is held",
		Edits: []overlay.Edit{part("node-short-free", "KEYS[1], ", "")}, Tests: shortVoteTests,
	},
	{
		Name: "short-vote-after-the-end", About: "the short way of a vote grants a lock to a token that a tombstone stands for",
		Edits: []overlay.Edit{part("node-short-free", ", KEYS[2]", "")}, Tests: shortVoteTests,
	},
	{
		Name: "short-vote-of-any-counter", About: "the short way of a vote believes a counter that somebody has set",
		Edits: []overlay.Edit{line("node-short-counter", "if false then")}, Tests: shortVoteTests,
	},
	{
		Name: "short-vote-with-an-old-fence", About: "the short way of a vote repeats the latest fence",
		Edits: []overlay.Edit{part("node-short-fence", " + 1", ""), line("node-short-stored", "")}, Tests: shortVoteTests,
	},
	{
		Name: "short-vote-forgets-its-fence", About: "the short way of a vote does not store the fence",
		Edits: []overlay.Edit{line("node-short-stored", "")}, Tests: shortVoteTests,
	},
	{
		Name: "short-vote-forgets-its-ticket", About: "the short way of a vote does not keep the ticket",
		Edits: []overlay.Edit{line("node-short", "if true then")}, Tests: shortVoteTests,
	},
}
