// Package history records who held which lock when, in one process or in many on one machine, and judges
// whether that was mutual exclusion.
package history

import (
	"maps"
	"slices"
	"time"
)

// Event is one attempt to get a lock, and its outcome. Times are in nanoseconds of the clock that Now reads;
// zero means that it did not happen.
type Event struct {
	ID        uint64 `json:"id"` // of the attempt within its process
	Process   int    `json:"process"`
	Goroutine int    `json:"goroutine"`
	Name      string `json:"name"`            // of the lock
	Share     int    `json:"share,omitempty"` // how much of a lock that several may hold; 0: all of it
	Fence     uint64 `json:"fence,omitempty"`
	Asked     int64  `json:"asked"`              // before the call of Acquire
	GaveUp    int64  `json:"gave_up,omitempty"`  // after a call that returned no lease
	Granted   int64  `json:"granted,omitempty"`  // after the call that returned the lease
	Released  int64  `json:"released,omitempty"` // before the call of Release
	Deadline  int64  `json:"deadline,omitempty"` // until when the holder believes that it holds the lock
	Since     int64  `json:"since,omitempty"`    // when the request was sent from which Deadline counted at the grant; 0 if unknown
}

// end returns when the holder stopped believing that it held the lock.
func (e Event) end() int64 {
	if e.Released != 0 {
		return min(e.Released, e.Deadline)
	}
	return e.Deadline
}

// held reports whether the holder ever had reason to believe that it held the lock: not if it was told after
// the deadline.
func (e Event) held() bool { return e.Granted != 0 && e.Granted < e.end() }

// wait returns how long the attempt took.
func (e Event) wait() time.Duration {
	return time.Duration(max(e.Granted, e.GaveUp) - e.Asked)
}

// base is one moment on two clocks: that of package time, which shows differences only, and the one that all
// processes share.
var base, baseNanos = anchor()

// Now reads a clock that all processes of this machine share and that nobody sets: CLOCK_MONOTONIC on Linux.
// Elsewhere it starts from the time of day at the process's start, and is only as good as that.
func Now() int64 { return At(time.Now()) }

// At converts t, such as a lease's deadline, to the clock that Now reads. It is exact if t has a monotonic
// reading.
func At(t time.Time) int64 { return baseNanos + int64(t.Sub(base)) }

// anchor reads both clocks at one moment. Of several attempts it returns the quickest.
func anchor() (time.Time, int64) {
	var base time.Time
	var nanos int64
	shortest := time.Duration(1<<63 - 1)
	for range 32 {
		before := time.Now()
		n := nanotime()
		if took := time.Since(before); took < shortest {
			base, nanos, shortest = before.Add(took/2), n, took
		}
	}
	return base, nanos
}

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
