package mutants

import "github.com/holdfast-go/holdfast/tests/internal/campaign"

// Locks that people write and articles warn of; naiveworker has them.
var naive = []Mutant{
	naiveLock("exists-then-set", "two commands: EXISTS, then SET", nil, campaign.Overlap),
	naiveLock("setnx-then-expire", "two commands: SETNX, then PEXPIRE; a crash in between leaves the lock for ever",
		[]string{"process-killed", "lost-request"}, campaign.Wakeup, campaign.Leak),
	naiveLock("getset-client-clocks", "the time of expiry is in the value, by the clients' clocks, and the lock is acquired with GETSET",
		nil, campaign.Overlap),
	naiveLock("get-then-del", "release is two commands: GET, then DEL", []string{"delayed-requests", "slow-network"}, campaign.Overlap),
	naiveLock("plain-del", "release is a DEL", nil, campaign.Overlap),
	naiveLock("millisecond-tokens", "the owner's token is the time in milliseconds", nil, campaign.Overlap),
	naiveLock("never-told", "the holder is never told that its lease is over", paused, campaign.Overlap),
}
