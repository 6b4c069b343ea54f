package history

import (
	"testing"
	"time"
)

// Now reads the clock that other processes read, not just one that runs as fast, and At agrees with it.
func TestNowIsTheSharedClock(t *testing.T) {
	const tolerance = int64(100 * time.Microsecond)
	best := int64(1 << 62)
	for range 100 { // the machine may be busy between two readings
		before := nanotime()
		now := Now()
		after := nanotime()
		best = min(best, max(before-now, now-after))
	}
	if best > tolerance {
		t.Errorf("Now is %v away from the shared clock", time.Duration(best))
	}
	now := time.Now()
	if got := At(now.Add(5*time.Second)) - At(now); got != 5e9 {
		t.Errorf("5 s are %d ns", got)
	}
}
