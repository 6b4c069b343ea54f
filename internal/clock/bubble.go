package clock

import (
	"sync/atomic"
	"time"
)

// InBubble reports whether the caller is in a bubble of testing/synctest, where time starts in the year 2000.
func InBubble() bool { return time.Now().Year() < 2020 }

// StopBootInBubbles stops the boot clock in bubbles, for good. It would otherwise run on while virtual time stands still, and show a
// suspension that did not happen. Outside bubbles it runs as before, since tests in and out of bubbles run at the same time.
func StopBootInBubbles() { stopped.Store(true) }

var stopped atomic.Bool

// readBoot reads the boot clock, unless it is stopped.
func readBoot() time.Duration {
	if stopped.Load() && InBubble() {
		return 0
	}
	return bootTime()
}
