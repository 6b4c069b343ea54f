package history

import (
	"cmp"
	"slices"
)

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

// Requested returns the latest time at which the grant can have been requested from the server.
func (e Event) Requested() int64 {
	if e.Since != 0 {
		return min(e.Since, e.Asked)
	}
	return e.Asked
}
