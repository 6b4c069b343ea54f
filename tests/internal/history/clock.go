package history

import "time"

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
