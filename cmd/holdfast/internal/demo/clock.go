package demo

import "time"

// instant is a moment in nanoseconds on a clock that all processes of the demo
// share, so that what they recorded can be put in one order. Zero means never.
type instant int64

// The two readings of one moment by which this process converts. They are
// taken at the start: a process that is paused between two readings would
// convert wrongly from then on.
var baseTime, baseInstant = anchor()

func now() instant { return at(time.Now()) }

// at converts t exactly where t has a monotonic reading, as a lease's deadline
// has.
func at(t time.Time) instant { return baseInstant + instant(t.Sub(baseTime)) }

func (i instant) sub(j instant) time.Duration { return time.Duration(i - j) }

func (i instant) add(d time.Duration) instant { return i + instant(d) }

// anchor reads both clocks: of some tries, the one with the least time in
// between.
func anchor() (time.Time, instant) {
	var base time.Time
	var same instant
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
