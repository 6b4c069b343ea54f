package mutants

// What observers are told.
var observers = []Mutant{
	mutant("loss-untold", "observers are not told that a lease was lost",
		by("virtual.TestEveryAcquireAndEveryLeaseHasOneEnd", "behaviour.TestObserversOfALostLease"),
		part("tell-loss", "h.observeLoss(err)", "_ = h.observeLoss")),
	mutant("end-told-twice", "observers are told of a lease's end as often as something ends it",
		by("virtual.TestEveryAcquireAndEveryLeaseHasOneEnd"), part("one-end", "o.over", "false")),
	mutant("failure-untold", "observers are not told that an acquire failed",
		by("virtual.TestEveryAcquireAndEveryLeaseHasOneEnd", "behaviour.TestObserversOfAnAcquireThatFails"),
		part("tell-end", "tell != nil", "tell != nil && err == nil")),
	mutant("told-under-a-mutex", "observers are called while the lease's mutex is held",
		by("behaviour.TestObserversAreCalledWithoutALock"),
		part("told-later", "*end = &queuedNews{n, tell, nil}", "tell(&o.told, lock.LeaseEvent{LeaseNews: n})")),
	mutant("outage-told-by-request", "observers are told of an outage by every request that fails in it",
		by("virtual.TestObserversOfAnOutage"), part("once-per-outage", "o.lost || ", "")),
	mutant("panic-unlogged", "nobody learns that an observer panics",
		by("behaviour.TestAnObserverThatPanics"), part("observer-panics", "what != nil", "what != nil && false")),
}
