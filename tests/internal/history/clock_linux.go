package history

import "golang.org/x/sys/unix"

func nanotime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("history: CLOCK_MONOTONIC: " + err.Error())
	}
	return ts.Nano()
}
