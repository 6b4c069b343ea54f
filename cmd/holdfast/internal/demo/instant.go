package demo

import "time"

// Instant is a moment, in nanoseconds on a clock that all processes of the demo share, so that what they record can
// be put in order. Zero means never.
type Instant int64

// baseTime and baseInstant are the same moment, by which this process converts. They are read at the start: a process
// that is paused between two readings would convert wrongly from then on.
var baseTime, baseInstant = readBase()

// Now returns the current moment.
func Now() Instant { return At(time.Now()) }

// At converts t. It is exact if t has a monotonic reading, as the deadline of a lease has.
func At(t time.Time) Instant { return baseInstant + Instant(t.Sub(baseTime)) }

// Sub returns i - j.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Add returns i + d.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// readBase reads both clocks several times, and keeps the pair with the least time in between.
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
