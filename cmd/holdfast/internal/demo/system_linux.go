package demo

import (
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithThread makes the kernel kill the process when the demo dies. A paused process would not notice the end of its input.
func dieWithThread(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// clockError bounds the error of an Instant. The two readings of clocks in At are less than a microsecond apart.
const clockError = time.Microsecond

// Now reads CLOCK_MONOTONIC, which is one clock for the whole machine.
func Now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("holdfast demo: CLOCK_MONOTONIC: " + err.Error())
	}
	return Instant(ts.Nano())
}
