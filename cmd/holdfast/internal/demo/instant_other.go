//go:build !linux

package demo

import "time"

// clockError is how much the clocks of two processes may differ: each starts from the time of day, which may be
// corrected between two starts.
const clockError = time.Millisecond

// readShared reads the time of day, the one clock that processes share on every system.
func readShared() Instant { return Instant(time.Now().UnixNano()) }
