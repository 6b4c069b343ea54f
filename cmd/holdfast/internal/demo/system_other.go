//go:build !linux

package demo

import (
	"os/exec"
	"time"
)

// dieWithThread does nothing: here a worker ends when its standard input ends.
func dieWithThread(*exec.Cmd) {}

// clockError bounds the error of an Instant: the time of day may be corrected while the demo runs.
const clockError = time.Millisecond

// Now reads the time of day, the only clock that processes share on every system.
func Now() Instant { return Instant(time.Now().UnixNano()) }
