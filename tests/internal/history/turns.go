package history

import (
	"cmp"
	"slices"
)

// Turns returns the grants of a lock that several may hold whose fences do not show whose turn came later. A
// grant of a part must be above the latest grant of the whole, and a grant of the whole above every earlier
// grant.
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

// Later returns the grants that were requested after a grant with a higher fence was reported. The request
// counts from Attempt.Since, if that was recorded, or else from the call. Later is for locks whose goroutines
// never get a grant that was made to another goroutine before they asked.
func Later(events []Event) []Violation {
	var violations []Violation
	for _, heard := range byName(events) {
		asked := slices.SortedFunc(slices.Values(heard), func(a, b Event) int { return cmp.Compare(a.Requested(), b.Requested()) })
		var highest Event
		for _, e := range asked {
			for len(heard) > 0 && heard[0].Granted < e.Requested() {
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

// Twins returns the grants that have the same fence as another one of the same lock, and records that contradict themselves.
func Twins(events []Event) []Violation {
	return SharedFences(events, false, func(_, _ Event) bool { return false })
}

// Requested returns the latest time at which the grant can have been requested from the server.
func (e Event) Requested() int64 {
	if e.Since != 0 {
		return min(e.Since, e.Asked)
	}
	return e.Asked
}
