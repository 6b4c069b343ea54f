package mutants

import "github.com/holdfast-go/holdfast/tests/internal/overlay"

// What observers are told.
var observers = []Mutant{
	{
		Name: "loss-untold", About: "observers are not told that a lease was lost",
		Edits: []overlay.Edit{part("tell-loss", "h.observeLoss(err)", "_ = h.observeLoss")},
		Tests: []Test{{"virtual", "TestEveryAcquireAndEveryLeaseHasOneEnd"}, {"behaviour", "TestObserversOfALostLease"}},
	},
	{
		Name: "end-told-twice", About: "observers are told of a lease's end as often as something ends it",
		Edits: []overlay.Edit{part("one-end", "o.over", "false")},
		Tests: []Test{{"virtual", "TestEveryAcquireAndEveryLeaseHasOneEnd"}},
	},
	{
		Name: "failure-untold", About: "observers are not told that an acquire failed",
		Edits: []overlay.Edit{part("tell-end", "tell != nil", "tell != nil && err == nil")},
		Tests: []Test{{"virtual", "TestEveryAcquireAndEveryLeaseHasOneEnd"}, {"behaviour", "TestObserversOfAnAcquireThatFails"}},
	},
	{
		Name: "told-under-a-mutex", About: "observers are called while the lease's mutex is held",
		Edits: []overlay.Edit{part("told-later", "*end = &queuedNews{n, tell, nil}", "tell(&o.told, lock.LeaseEvent{LeaseNews: n})")},
		Tests: []Test{{"behaviour", "TestObserversAreCalledWithoutALock"}},
	},
	{
		Name: "outage-told-by-request", About: "observers are told of an outage by every request that fails in it",
		Edits: []overlay.Edit{part("once-per-outage", "o.lost || ", "")},
		Tests: []Test{{"virtual", "TestObserversOfAnOutage"}},
	},
	{
		Name: "panic-unlogged", About: "nobody learns that an observer panics",
		Edits: []overlay.Edit{part("observer-panics", "what != nil", "what != nil && false")},
		Tests: []Test{{"behaviour", "TestAnObserverThatPanics"}},
	},
}
