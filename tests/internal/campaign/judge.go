package campaign

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// Rule names what a history broke.
type Rule string

const (
	Overlap    Rule = "overlap"         // two held one lock
	Fences     Rule = "fence"           // a later grant has no higher fence
	Order      Rule = "order"           // a waiter was overtaken
	Wakeup     Rule = "wake-up"         // a waiter waits although nothing is in its way
	Leak       Rule = "leak"            // something was left behind
	Resource   Rule = "resource"        // accesses that no order explains
	Sequential Rule = "linearizability" // grants that no order explains
	Race       Rule = "data race"       // in a process that was built with the race detector
	StaleWrite Rule = "stale write"     // accepted after a later holder's access
	Counting   Rule = "once"            // which runs of a job count
	Counted    Rule = "latch"           // counts that no order explains
	Phases     Rule = "barrier"         // which party passed which phase
	Circle     Rule = "deadlock"        // a circle of callers that there was not
)

// Finding is a violation.
type Finding struct {
	Rule Rule   `json:"rule"`
	Text string `json:"text"`
}

// Verdict is the outcome of a history.
type Verdict struct {
	Findings []Finding `json:"findings,omitempty"`
	Unknown  int       `json:"unknown,omitempty"` // checks that were not decided

	Operations   int `json:"operations"`
	Grants       int `json:"grants"`
	Overlaps     int `json:"overlaps"`      // outside of what is promised
	StaleWrites  int `json:"stale_writes"`  // offered to the resource
	StaleRefused int `json:"stale_refused"` // by it
}

func (v *Verdict) find(rule Rule, format string, args ...any) {
	v.Findings = append(v.Findings, Finding{rule, fmt.Sprintf(format, args...)})
}

// Judge looks for violations in a record.
func Judge(r *Record, subject Subject) Verdict {
	var v Verdict
	within := r.Plan.Within()
	for _, e := range r.Events {
		v.Operations++
		if e.Granted != 0 {
			v.Grants++
		}
		if e.Released != 0 {
			v.Operations++
		}
	}
	v.Operations += r.extensions

	overlaps := subject.Overlaps(r.Events)
	if within {
		for _, o := range overlaps {
			v.find(Overlap, "%v", o)
		}
		judgeModel(&v, r.Events, subject.Model())
	} else {
		v.Overlaps = len(overlaps)
	}
	if !r.Plan.fencesMayFall() {
		judgeFences(&v, r, subject, within)
	}
	for _, o := range ofRule(history.Check(r.Events), history.Sense) {
		v.find(Sequential, "%v", o)
	}
	subject.Judge(&v, r)
	judgeRegisters(&v, r)
	if !r.Plan.fencesMayFall() {
		judgeStaleWrites(&v, r)
	}
	if r.Ordered {
		for _, passed := range r.Passed {
			v.find(Order, "%s", passed)
		}
		for _, fell := range r.Fell {
			if !r.Plan.fencesMayFall() {
				v.find(Fences, "%s", fell)
			}
		}
	}
	for _, race := range r.races {
		v.find(Race, "%s", race)
	}
	for _, stuck := range r.Stuck {
		v.find(Wakeup, "%s", stuck)
	}
	for _, left := range r.Left {
		v.find(Leak, "%s", left)
	}
	for _, e := range r.ended {
		if e.After > e.Before {
			v.find(Leak, "%d goroutines before, %d after:\n%s", e.Before, e.After, e.Stacks)
		}
		if strings.Contains(e.Close, "deadline exceeded") {
			v.find(Leak, "Close: %s", e.Close)
		}
	}
	return v
}

// judgeFences requires that fences rise. Where exclusion is promised, every grant of a whole lock is later than
// all grants reported before it. If several may hold the lock, a grant is certainly later only than those
// reported before its process requested it: a process may pass on a hold, with its earlier fence, before it
// learns that the hold is lost.
func judgeFences(v *Verdict, r *Record, subject Subject, within bool) {
	events := slices.DeleteFunc(slices.Clone(r.Events), func(e history.Event) bool { return e.Granted == 0 || e.Process == 0 })
	if within {
		whole := slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return e.Share != 0 })
		for _, o := range ofRule(history.Check(whole), history.Fencing) {
			v.find(Fences, "%v", o)
		}
		if len(whole) == len(events) {
			return
		}
	}
	for _, o := range ofRule(history.SharedFences(events, false, subject.ShareFence), history.Fencing) {
		v.find(Fences, "%v", o)
	}
	if !subject.FencesTellTurns() {
		return
	}
	for _, o := range history.Later(events) {
		if !r.joinsAgain(o.Second) {
			v.find(Fences, "%v", o)
		}
	}
}

// joinsAgain reports whether a hold may have joined earlier holds that the server has brought back: shares of
// the same lock with the same fence.
func (r *Record) joinsAgain(e history.Event) bool {
	return e.Share != 0 && r.Plan.has(func(k *Kind) bool { return k.BringsBack }) && slices.ContainsFunc(r.Events, func(other history.Event) bool {
		return other.Share != 0 && other.Name == e.Name && other.Fence == e.Fence && other.Granted != 0 && other.Granted < e.Granted
	})
}
