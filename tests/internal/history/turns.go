package history

import (
	"cmp"
	"slices"
)

// Turns returns the grants whose fences do not tell whose turn came later, of a lock that
// several may hold: what is granted of it is above what was last granted of all of it, and what
// is granted of all of it above everything before.
func Turns(events []Event) []Violation {
	var violations []Violation
	for _, grants := range byName(events) {
		var any, whole Event // with the highest fence so far
		for _, e := range grants {
			if !e.held() {
				continue
			}
			before := whole
			if e.Share == 0 {
				before = any
			}
			if e.Fence <= before.Fence {
				violations = append(violations, Violation{Fencing, before, e})
				continue
			}
			if e.Fence > any.Fence {
				any = e
			}
			if e.Share == 0 {
				whole = e
			}
		}
	}
	return violations
}

// Later returns the grants that were asked for when one with a higher fence had been heard of:
// of the server, if it is known when that was (Attempt.Since), else by the goroutine. It is for
// locks of which goroutines that wait are not given what others were granted before they came.
func Later(events []Event) []Violation {
	var violations []Violation
	for _, heard := range byName(events) {
		asked := slices.SortedFunc(slices.Values(heard), func(a, b Event) int { return cmp.Compare(a.since(), b.since()) })
		var highest Event
		for _, e := range asked {
			for len(heard) > 0 && heard[0].Granted < e.since() {
				if heard[0].Fence > highest.Fence {
					highest = heard[0]
				}
				heard = heard[1:]
			}
			if e.Fence < highest.Fence {
				violations = append(violations, Violation{Fencing, highest, e})
			}
		}
	}
	return violations
}

// Twins returns the grants that have the fence of another one of the same lock.
func Twins(events []Event) []Violation {
	var violations []Violation
	for _, grants := range byName(events) {
		owners := map[uint64]Event{}
		for _, e := range grants {
			if twin, ok := owners[e.Fence]; ok {
				violations = append(violations, Violation{Fencing, twin, e})
			}
			owners[e.Fence] = e
		}
	}
	return violations
}

// since is when what was granted was asked for, at the latest.
func (e Event) since() int64 {
	if e.Since != 0 {
		return min(e.Since, e.Asked)
	}
	return e.Asked
}
