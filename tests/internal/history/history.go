// Package history records who held which lock when, in one process or in many
// of one machine, and decides whether that was mutual exclusion.
package history

import "time"

// Event is one attempt to get a lock and what became of it. Times are in
// nanoseconds of the clock that Now reads; zero means that it did not happen.
type Event struct {
	ID        uint64 `json:"id"` // of the attempt in its process
	Process   int    `json:"process"`
	Goroutine int    `json:"goroutine"`
	Name      string `json:"name"`            // of the lock
	Share     int    `json:"share,omitempty"` // how much of the lock, where several may hold it; 0: all of it
	Order     uint64 `json:"order,omitempty"` // place in the lock's queue, where known
	Fence     uint64 `json:"fence,omitempty"`
	Asked     int64  `json:"asked"`              // before the call of Acquire
	GaveUp    int64  `json:"gave_up,omitempty"`  // after a call that brought no lock
	Granted   int64  `json:"granted,omitempty"`  // after the call that brought it
	Released  int64  `json:"released,omitempty"` // before the call of Release
	Deadline  int64  `json:"deadline,omitempty"` // until when the holder believes to hold it
	Since     int64  `json:"since,omitempty"`    // when the server was asked whose answer Deadline counted from at the grant; 0 if not known
}

// end is when the holder stopped to believe that it held the lock.
func (e Event) end() int64 {
	if e.Released != 0 {
		return min(e.Released, e.Deadline)
	}
	return e.Deadline
}

// held reports whether the holder ever had reason to believe that it held the
// lock: a grant that is heard of after its deadline is none.
func (e Event) held() bool { return e.Granted != 0 && e.Granted < e.end() }

// wait is how long the attempt took.
func (e Event) wait() time.Duration {
	return time.Duration(max(e.Granted, e.GaveUp) - e.Asked)
}
