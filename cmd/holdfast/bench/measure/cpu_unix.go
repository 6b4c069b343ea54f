//go:build unix

package measure

import (
	"syscall"
	"time"
)

// ProcessCPU returns the processor time of this process so far, user and system. It returns false if the system does not report it.
func ProcessCPU() (used time.Duration, ok bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
