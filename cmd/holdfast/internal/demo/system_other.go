//go:build !linux

package demo

import (
	"os/exec"
	"time"
)

// dieWithThread does nothing: here a worker ends when its standard input ends.
func dieWithThread(*exec.Cmd) {}

// clockError is how much the clocks of two processes may differ: each starts from the time of day, which may be corrected between two
// starts.
const clockError = time.Millisecond

// readShared reads the time of day, the only clock that processes share on every system.
func readShared() Instant { return Instant(time.Now().UnixNano()) }
