//go:build unix

package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// clientCPU is what this process has used so far, user and system.
func clientCPU() (used time.Duration, ok bool) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
