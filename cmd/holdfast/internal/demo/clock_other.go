//go:build !linux

package demo

import "time"

// clockError is by how much the clocks of two processes may differ: each starts
// from the time of day, which may be corrected between two starts.
const clockError = time.Millisecond

// readShared reads the time of day, the one clock that processes have in common
// on every system.
func readShared() instant { return instant(time.Now().UnixNano()) }
