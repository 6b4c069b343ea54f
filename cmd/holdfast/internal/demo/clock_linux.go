package demo

import (
	"time"

	"golang.org/x/sys/unix"
)

// clockError is by how much the clocks of two processes may differ: the tries
// of anchor take well under a microsecond.
const clockError = time.Microsecond

// readShared reads CLOCK_MONOTONIC, which is one clock for the whole machine.
func readShared() instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("holdfast demo: CLOCK_MONOTONIC: " + err.Error())
	}
	return instant(ts.Nano())
}
