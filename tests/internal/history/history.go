// Package history records who held which lock when, in one process or in many on one machine, and judges
// whether that was mutual exclusion.
package history

import "time"

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
