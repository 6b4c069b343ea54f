package demo

import (
	"time"
)

// Instant is a moment on a clock that all processes of the demo share, so that their records can be put in order. 0 means never.
type Instant = time.Duration

// baseTime and baseInstant are the same moment. They are read once, at the start: if the process were paused between the readings of the
// two clocks, At would be wrong.
var baseTime, baseInstant = readBase()

// Now returns the current moment.
func Now() Instant { return At(time.Now()) }

// At converts t. It is exact if t has a monotonic reading, as the deadline of a lease has.
func At(t time.Time) Instant { return baseInstant + t.Sub(baseTime) }

// readBase reads both clocks several times, and returns the pair that was read fastest.
func readBase() (time.Time, Instant) {
	var base time.Time
	var same Instant
	shortest := time.Hour
	for range 32 {
		before := time.Now()
		i := readShared()
		if took := time.Since(before); took < shortest {
			base, same, shortest = before.Add(took/2), i, took
		}
	}
	return base, same
}
