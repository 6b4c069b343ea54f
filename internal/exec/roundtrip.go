package exec

import (
	"sync/atomic"
	"time"
)

// RoundTrip is a running mean of how long the server takes to answer.
type RoundTrip struct{ ns atomic.Int64 }

func (r *RoundTrip) observe(d time.Duration) {
	old := r.ns.Load()
	if old == 0 {
		r.ns.Store(int64(d))
		return
	}
	r.ns.Store(old + (int64(d)-old)/8)
}

// Mean returns the mean, or 0 before the first answer.
func (r *RoundTrip) Mean() time.Duration { return time.Duration(r.ns.Load()) }
