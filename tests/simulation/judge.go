package simulation

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// Result is the outcome of a world.
type Result struct {
	Seed       uint64
	Temper     Temper
	Simulated  time.Duration // until the faults were over
	Nodes      int           // of a quorum; 0 for one server
	Grants     int
	Passed     int            // completed waits for a latch or for a phase of a barrier
	Native     int            // acquires by the server's own commands; not of quorums
	Faults     map[string]int // that struck, by kind
	Outcomes   map[string]int // of attempts and leases
	Overlaps   int            // in a wild world
	Violations []string
	Hash       uint64 // of the log
	Plan       string
	Log        []string `json:"-"`
}

// record adds an attempt. A queued one must not wait for a lock that is free.
func (w *World) record(e history.Event, queued bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.ID = uint64(len(w.events))
	w.events = append(w.events, e)
	w.queued[e.ID] = queued
}

// jobRun is a run of a job. Times are as in history.Event.
type jobRun struct {
	name         string
	begun, ended int64
	told         int64 // when it was known to be completed; 0 if it never was
}

func (w *World) ran(r jobRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs = append(w.jobs, r)
}

// doneAgain finds runs that began although one had been completed in their window. The server counts the window
// by its own clock, from some time between the run's end and the report of it.
func (w *World) doneAgain() []string {
	var found []string
	for _, n := range w.plan.names {
		window := int64(float64(n.window()) / w.plan.rate)
		for _, r := range w.jobs {
			for _, next := range w.jobs {
				if r.name == n.name && next.name == n.name && r.told != 0 && next.begun > r.told && next.begun < r.ended+window {
					found = append(found, fmt.Sprintf("job %q was begun %s after a run that was completed, in a window of %s",
						n.name, time.Duration(next.begun-r.ended), n.window()))
				}
			}
		}
	}
	return found
}

func (w *World) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.result.Outcomes == nil {
		w.result.Outcomes = map[string]int{}
	}
	w.result.Outcomes[what]++
}

// judge checks the world's history.
func (w *World) judge() Result {
	r := w.result
	r.Plan = w.plan.String()
	r.Violations = w.findings
	for _, v := range w.check() {
		switch {
		case v.Rule == history.Fencing && v.Second.Fence == 0:
			// Programs that know only SET have no fences.
		case v.Rule == history.Exclusion && w.plan.temper == Wild:
			r.Overlaps++
		case v.Rule == history.Fencing && w.plan.temper == Wild && v.Second.Share != 0 && v.First.Fence != v.Second.Fence:
			// A holder that believes in a lock which was deleted admits others of its process.
		case v.Rule == history.Fencing && w.plan.temper == Wild && w.jointly[v.Second.Fence] && v.First.Fence != v.Second.Fence:
			// One of several locks, granted while the goroutine waited for the others, and deleted before it had all.
		default:
			r.Violations = append(r.Violations, fmt.Sprintf("%s: %s: %v", time.Duration(v.Second.Granted), v.Rule, v))
		}
	}
	if w.plan.temper == Calm && w.plan.several == nil { // a goroutine that waits for several already has some, unrecorded
		r.Violations = append(r.Violations, w.idleLocks()...)
	}
	if w.plan.temper != Wild {
		r.Violations = append(r.Violations, w.doneAgain()...)
		r.Violations = append(r.Violations, w.crowding()...)
	}
	for _, e := range w.events {
		if e.Granted != 0 {
			r.Grants++
		}
	}
	r.Passed = w.crowd.passed()
	// Lines of the same moment have no order.
	slices.SortStableFunc(w.lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.process, b.process), cmp.Compare(a.goroutine, b.goroutine))
	})
	h := fnv.New64a()
	for _, l := range w.lines {
		text := l.String()
		fmt.Fprintln(h, text)
		r.Log = append(r.Log, text)
	}
	r.Hash = h.Sum64()
	return r
}

// check checks the history of each name by the rules of its form.
func (w *World) check() []history.Violation {
	var all []history.Violation
	for _, n := range w.plan.names {
		var events []history.Event
		for _, e := range w.events {
			if e.Name == n.name {
				events = append(events, e)
			}
		}
		if n.form == latched {
			events = w.crowd.untilReset(n.name, events)
		}
		all = append(all, n.check(events)...)
	}
	return all
}

// span is a period, in ns since the world began.
type span struct{ from, to int64 }

// merge returns the time that spans cover, in order and without overlaps.
func merge(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var all []span
	for _, s := range spans {
		if n := len(all); n > 0 && s.from <= all[n-1].to {
			all[n-1].to = max(all[n-1].to, s.to)
		} else if s.to > s.from {
			all = append(all, s)
		}
	}
	return all
}

// maxIdle is how long, in a calm world, a lock with a waiter may be free: some round trips. A lease that ends
// by itself is released.
const maxIdle = 3 * time.Second

// idleLocks finds locks that were free while somebody waited for them.
func (w *World) idleLocks() []string {
	var found []string
	for _, n := range w.plan.names {
		held, wanted := w.transit(n.name), []span(nil)
		for _, e := range w.events {
			switch {
			case e.Name != n.name:
				continue
			case e.Granted != 0:
				held = append(held, span{e.Granted, min(e.Released, e.Deadline)})
			}
			if w.queued[e.ID] {
				wanted = append(wanted, span{e.Asked, max(e.Granted, e.GaveUp)})
			}
		}
		held = append(merge(held), span{1<<63 - 1, 1<<63 - 1})
		for _, want := range merge(wanted) {
			free := want.from
			for _, h := range held {
				if until := min(h.from, want.to); until-free > int64(maxIdle) {
					found = append(found, fmt.Sprintf("lock %q was free from %s to %s although somebody waited for it", n.name, time.Duration(free), time.Duration(until)))
				}
				free = max(free, h.to)
			}
		}
	}
	return found
}
