package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// Read-write locks, semaphores and owners' locks.
var shares = []Mutant{
	{
		Name: "one-release-for-all", About: "a reader deletes the holds of the others",
		Subject: campaign.ReadWrite{},
		Edits:   []overlay.Edit{line("release-share", "redis.call('DEL', KEYS[1])\nused, next_expiry, common_fence = 0, 9e15, nil")},
		Rules:   []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "one-ttl-for-all", About: "all holders have one TTL: a dead one holds on while others renew",
		Subject: campaign.ReadWrite{},
		Edits:   []overlay.Edit{line("share-expired", "if false then")},
		Kinds:   []string{"process-killed"}, Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "permits-leak", About: "the permits of a dead holder stay taken",
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
		Name: "light-first", About: "a waiter for few permits overtakes one for many",
		Subject: campaign.Permits{},
		Edits:   []overlay.Edit{part("share-nobody-waits", " and not first_waiter()", "")},
		Rules:   []campaign.Rule{campaign.Order},
	},
	{
		Name: "owner-not-asked", About: "an owner that has the lock lets everybody in",
		Subject: campaign.Owned{},
		Edits:   []overlay.Edit{part("same-owner", " and owner == lock_owner", "")},
		Rules:   []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "owner-counted-once", About: "an owner's second lease is not counted: the first release frees the lock",
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
}
