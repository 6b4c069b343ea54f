//go:build !linux

package clock

import "time"

// Boot returns 0, since there is no second clock to read. On Windows Go's monotonic clock runs through suspension. On macOS it stops,
// so after a suspension only the server notices that a lease has expired.
func Boot() time.Duration { return 0 }
