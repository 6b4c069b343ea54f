//go:build !linux

package clock

import "time"

// bootTime: Go's monotonic clock runs through suspension on Windows; on macOS it
// does not, and a lease there is found to be late only by the server.
func bootTime() time.Duration { return 0 }
