package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Rule names what a history breaks.
type Rule string

const (
	// Exclusion: two processes held the same lock at the same time.
	Exclusion Rule = "overlap"
	// Fencing: a later grant has no greater fence.
	Fencing Rule = "fence"
	// Sense: a record contradicts itself, so the test is broken.
	Sense Rule = "record"
)

// Violation says where a history breaks a rule. For a rule about one event, Second is that event too.
type Violation struct {
	Rule   Rule
	First  Event
	Second Event
}

func (v Violation) String() string {
	a, b := v.First, v.Second
	switch v.Rule {
	case Exclusion:
		return fmt.Sprintf("lock %q: %v with fence %d got it %v before %v with fence %d had let go of it",
			a.Name, who(b), b.Fence, time.Duration(a.end()-b.Granted), who(a), a.Fence)
	case Fencing:
		return fmt.Sprintf("lock %q: %v got fence %d, and %v later %v got fence %d",
			a.Name, who(a), a.Fence, time.Duration(b.Granted-a.Granted), who(b), b.Fence)
	default:
		return fmt.Sprintf("lock %q: %v: impossible record %+v", a.Name, who(a), a)
	}
}

func who(e Event) string { return fmt.Sprintf("process %d goroutine %d", e.Process, e.Goroutine) }

// Check returns every violation of a history, of any number of locks.
//
// A lock is held from its grant until its release or its deadline, whichever comes first, excluding that
// moment. An event that overlaps earlier ones is reported once, with the one of them that ends last.
func Check(events []Event) []Violation {
	var violations []Violation
	for _, grants := range byName(events) {
		violations = append(violations, checkSense(grants)...)
		violations = append(violations, checkExclusion(grants, 1, func(Event) int { return 1 })...)
		violations = append(violations, checkFences(grants, true, func(_, _ Event) bool { return false })...)
	}
	return violations
}

// byName returns the grants of each lock, in order.
func byName(events []Event) [][]Event {
	locks := make(map[string][]Event)
	var names []string
	for _, e := range events {
		if e.Granted == 0 {
			continue
		}
		if locks[e.Name] == nil {
			names = append(names, e.Name)
		}
		locks[e.Name] = append(locks[e.Name], e)
	}
	var all [][]Event
	for _, name := range names {
		grants := locks[name]
		slices.SortStableFunc(grants, func(a, b Event) int { return cmp.Compare(a.Granted, b.Granted) })
		all = append(all, grants)
	}
	return all
}

// Strangers returns the grants that overlap one of another owner. Share is the number of the owner, who may
// have several.
func Strangers(events []Event) []Violation {
	var violations []Violation
	for _, grants := range byName(events) {
		latest := map[int]Event{} // to end, by owner
		for _, e := range grants {
			if !e.held() {
				continue
			}
			for whose, l := range latest {
				if whose != e.Share && e.Granted < l.end() {
					violations = append(violations, Violation{Exclusion, l, e})
				}
			}
			if e.end() > latest[e.Share].end() {
				latest[e.Share] = e
			}
		}
	}
	return violations
}

// SharedFences returns the grants of locks that several may hold whose fences are wrong. A fence is wrong if
// another grant has it, unless joint says that these two may share it. If rise is true, a fence is also wrong
// if it is lower than that of an earlier grant. SharedFences also returns records that contradict themselves.
func SharedFences(events []Event, rise bool, joint func(a, b Event) bool) []Violation {
	var violations []Violation
	for _, grants := range byName(events) {
		violations = append(violations, checkSense(grants)...)
		violations = append(violations, checkFences(grants, rise, joint)...)
	}
	return violations
}

// checkFences compares each fence with the greatest before it. A grant that was reported too late to be held
// may be reported out of order, but its fence must still be unique, or shared with those that may.
func checkFences(grants []Event, rise bool, joint func(a, b Event) bool) []Violation {
	var violations []Violation
	owners := map[uint64]Event{}
	var greatest Event
	for _, e := range grants {
		twin, known := owners[e.Fence]
		switch {
		case known && !joint(twin, e):
			violations = append(violations, Violation{Fencing, twin, e})
			continue
		case rise && e.held() && (e.Fence < greatest.Fence || e.Fence == 0):
			violations = append(violations, Violation{Fencing, greatest, e})
		case e.held() && e.Fence > greatest.Fence:
			greatest = e
		}
		owners[e.Fence] = e
	}
	return violations
}

func checkSense(grants []Event) []Violation {
	var violations []Violation
	for _, e := range grants {
		switch {
		case e.Asked > e.Granted, e.GaveUp != 0, e.Deadline == 0, e.Released != 0 && e.Released < e.Granted:
			violations = append(violations, Violation{Sense, e, e})
		}
	}
	return violations
}

// Crowding returns the grants with which more than the whole of a lock was held.
func Crowding(events []Event, whole int) []Violation {
	var violations []Violation
	for _, grants := range byName(events) {
		violations = append(violations, checkExclusion(grants, whole, func(e Event) int {
			if e.Share == 0 {
				return whole
			}
			return e.Share
		})...)
	}
	return violations
}

// checkExclusion sweeps over the grants and remembers those that have not ended.
func checkExclusion(grants []Event, whole int, share func(Event) int) []Violation {
	var violations []Violation
	var there []Event
	used := 0
	for _, e := range grants {
		if !e.held() {
			continue
		}
		there = slices.DeleteFunc(there, func(h Event) bool {
			if h.end() > e.Granted {
				return false
			}
			used -= share(h)
			return true
		})
		there, used = append(there, e), used+share(e)
		if used > whole {
			longest := slices.MaxFunc(there[:len(there)-1], func(a, b Event) int { return cmp.Compare(a.end(), b.end()) })
			violations = append(violations, Violation{Exclusion, longest, e})
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
