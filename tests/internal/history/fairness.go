package history

import (
	"maps"
	"slices"
	"time"
)

// Report says how fairly locks were handed out.
type Report struct {
	Grants      int
	GaveUp      int
	LongestWait time.Duration // of any attempt, granted or given up
	MeanWait    time.Duration // of granted attempts

	// Jain is Jain's index of fairness over the number of grants of each
	// goroutine.
	Jain float64

	// Overtakes counts the grants that overtook an attempt of another process which was ahead in the lock's
	// queue and was granted later. It knows only attempts whose place was recorded. If processes are served
	// first in, first out, it is 0.
	Overtakes int
}

// Fairness reports on all the locks of a history together.
func Fairness(events []Event) Report {
	var r Report
	var waited time.Duration
	type worker struct{ process, goroutine int }
	grants := make(map[worker]int)
	for _, e := range events {
		w := worker{e.Process, e.Goroutine}
		switch {
		case e.Granted != 0:
			r.Grants++
			waited += e.wait()
			grants[w]++
		case e.GaveUp != 0:
			r.GaveUp++
			grants[w] += 0 // a goroutine without a grant counts, too
		default:
			continue
		}
		r.LongestWait = max(r.LongestWait, e.wait())
	}
	if r.Grants > 0 {
		r.MeanWait = waited / time.Duration(r.Grants)
		r.Jain = Jain(slices.Collect(maps.Values(grants)))
	}
	for _, grants := range byName(events) {
		r.Overtakes += overtakes(grants)
	}
	return r
}

// Jain is Jain's index of fairness over the number of grants of each goroutine: 1 if all have the same number,
// 1/n if one of n has all, 0 if there are none. (R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness,
// 1984)
func Jain(grants []int) float64 {
	var sum, squares float64
	for _, n := range grants {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(grants)) * squares)
}

// overtakes goes backwards from the last grant. It remembers the foremost place of all later grants, and the
// foremost place of any other process.
func overtakes(grants []Event) int {
	count := 0
	var first, second Event // Order 0: none yet
	for i := len(grants) - 1; i >= 0; i-- {
		e := grants[i]
		if e.Order == 0 {
			continue
		}
		front := first
		if front.Process == e.Process {
			front = second
		}
		if front.Order != 0 && front.Order < e.Order {
			count++
		}
		switch {
		case first.Order == 0 || e.Order < first.Order:
			if first.Process != e.Process {
				second = first
			}
			first = e
		case e.Process != first.Process && (second.Order == 0 || e.Order < second.Order):
			second = e
		}
	}
	return count
}
