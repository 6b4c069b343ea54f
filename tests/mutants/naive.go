package mutants

import "github.com/holdfast-go/holdfast/tests/internal/campaign"

// Locks that people write and articles warn of; naiveworker has them.
var naive = []Mutant{
	{
		Name: "exists-then-set", About: "two commands: EXISTS, then SET", Naive: "exists-then-set",
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "setnx-then-expire", About: "two commands: SETNX, then PEXPIRE; a crash in between leaves the lock for ever", Naive: "setnx-then-expire",
		Kinds: []string{"process-killed", "lost-request"}, Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "getset-client-clocks", About: "the time of expiry is in the value, by the clients' clocks, and the lock is acquired with GETSET", Naive: "getset-client-clocks",
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
}
