package mutants

import "github.com/holdfast-go/holdfast/tests/internal/campaign"

// Read-write locks, semaphores and owners' locks.
var shares = []Mutant{
	mutant("one-release-for-all", "a reader deletes the holds of the others",
		by("scripts.TestShares"), line("release-share", "redis.call('DEL', KEYS[1])\nused, next_expiry, common_fence = 0, 9e15, nil")).
		hunted(campaign.ReadWrite{}, nil, campaign.Overlap),
	mutant("one-ttl-for-all", "all holders have one TTL: a dead one holds on while others renew",
		by("scripts.TestRenewalsRemoveNobody"), line("share-expired", "if false then")).
		hunted(campaign.ReadWrite{}, []string{"process-killed"}, campaign.Wakeup, campaign.Leak),
	mutant("permits-leak", "the permits of a dead holder stay taken",
		by("scripts.TestShares"), part("share-expired", "<= now", "<= now and kind ~= 'sem'"),
		line("outlast-shares", "if kind ~= 'sem' then")),
	mutant("one-permit-more", "there is room for one more than the limit",
		by("scripts.TestShares"), part("room", "limit", "limit + 1")).hunted(campaign.Permits{}, nil, campaign.Overlap),
	mutant("light-first", "a waiter for few permits overtakes one for many",
		by("scripts.TestShares"), part("share-nobody-waits", " and not first_waiter()", "")).
		hunted(campaign.Permits{}, nil, campaign.Order),
	mutant("owner-not-asked", "an owner that has the lock lets everybody in",
		by("scripts.TestOwned"), part("same-owner", " and owner == lock_owner", "")).hunted(campaign.Owned{}, nil, campaign.Overlap),
	mutant("owner-counted-once", "an owner's second lease is not counted: the first release frees the lock",
		by("scripts.TestOwned"), line("add-weight", "used = kind == 'own' and 1 or used + weight")),
	mutant("joined-and-left", "the first of the readers that share a lease releases it for all",
		by("behaviour.TestReentrantIsHeldUntilTheLastRelease"), line("joined-release", "if h != nil {")),
}
