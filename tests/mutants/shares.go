package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// Read-write locks, semaphores and owners' locks.
var shares = []Mutant{
	{
		Name: "one-release-for-all", About: "a reader deletes the holds of the others",
		Edits:   []overlay.Edit{line("release-share", "redis.call('DEL', KEYS[1])\nused, next_expiry, common_fence = 0, 9e15, nil")},
		Tests:   []Test{{"scripts", "TestShares"}},
		Subject: campaign.ReadWrite{},
		Rules:   []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "one-ttl-for-all", About: "all holders have one TTL: a dead one holds on while others renew",
		Edits:   []overlay.Edit{line("share-expired", "if false then")},
		Tests:   []Test{{"scripts", "TestRenewalsRemoveNobody"}},
		Subject: campaign.ReadWrite{},
		Kinds:   []string{"process-killed"}, Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "permits-leak", About: "the permits of a dead holder stay taken",
		Edits: []overlay.Edit{
			part("share-expired", "<= now", "<= now and kind ~= 'sem'"),
			line("outlast-shares", "if kind ~= 'sem' then"),
		},
		Tests: []Test{{"scripts", "TestShares"}},
	},
	{
		Name: "one-permit-more", About: "there is room for one more than the limit",
		Edits:   []overlay.Edit{part("room", "limit", "limit + 1")},
		Tests:   []Test{{"scripts", "TestShares"}},
		Subject: campaign.Permits{},
		Rules:   []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "light-first", About: "a waiter for few permits overtakes one for many",
		Edits:   []overlay.Edit{part("share-nobody-waits", " and not first_waiter()", "")},
		Tests:   []Test{{"scripts", "TestShares"}},
		Subject: campaign.Permits{},
		Rules:   []campaign.Rule{campaign.Order},
	},
	{
		Name: "owner-not-asked", About: "an owner that has the lock lets everybody in",
		Edits:   []overlay.Edit{part("same-owner", " and owner == lock_owner", "")},
		Tests:   []Test{{"scripts", "TestOwned"}},
		Subject: campaign.Owned{},
		Rules:   []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "owner-counted-once", About: "an owner's second lease is not counted: the first release frees the lock",
		Edits: []overlay.Edit{line("add-weight", "used = kind == 'own' and 1 or used + weight")},
		Tests: []Test{{"scripts", "TestOwned"}},
	},
	{
		Name: "joined-and-left", About: "the first of the readers that share a lease releases it for all",
		Edits: []overlay.Edit{line("joined-release", "if h != nil {")},
		Tests: []Test{{"behaviour", "TestReentrantIsHeldUntilTheLastRelease"}},
	},
}
