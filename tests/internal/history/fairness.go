package history

import (
	"maps"
	"slices"
	"time"
)

// Report says how fairly locks were handed out.
type Report struct {
	Grants      int
	LongestWait time.Duration // of any attempt, granted or given up
	MeanWait    time.Duration // of granted attempts
	Jain        float64       // Jain's index of fairness over the number of grants of each goroutine
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
