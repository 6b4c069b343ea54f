package clock

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME, which is CLOCK_MONOTONIC plus the time that the system was suspended (clock_gettime(2)).
const clockBoottime = 7

// Boot reads the boot clock. It returns 0 if there is none.
func Boot() time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0
	}
	return time.Duration(ts.Nano())
}
