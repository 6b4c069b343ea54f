package demo

import (
	"time"

	"golang.org/x/sys/unix"
)

// clockError is how much the clocks of two processes may differ: readBase takes well under a microsecond.
const clockError = time.Microsecond

// readShared reads CLOCK_MONOTONIC, which is one clock for the whole machine.
func readShared() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("holdfast demo: CLOCK_MONOTONIC: " + err.Error())
	}
	return Instant(ts.Nano())
}
