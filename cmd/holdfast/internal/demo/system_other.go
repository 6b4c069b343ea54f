//go:build !linux

package demo

import (
	"os/exec"
	"time"
)

// dieWithThread does nothing: here a worker ends when its standard input ends.
func dieWithThread(*exec.Cmd) {}

// clockError is how much the clocks of two processes may differ: the time of day may be corrected meanwhile.
const clockError = time.Millisecond

// Now reads the time of day, the only clock that processes share on every system.
func Now() Instant { return Instant(time.Now().UnixNano()) }
