package clock

import (
	"sync/atomic"
	"time"
)

// InBubble reports whether the caller is in a bubble of testing/synctest, whose time starts in the year 2000.
func InBubble() bool { return time.Now().Year() < 2020 }

// StopBootInBubbles makes the boot clock stand still in bubbles, for good. It would run on there while virtual time
// stands still, and so show a suspension that did not happen. Outside of bubbles it runs as before, since tests in and out
// of bubbles run at the same time.
func StopBootInBubbles() { stopped.Store(true) }

var stopped atomic.Bool

// readBoot reads the boot clock, unless it stands still.
func readBoot() time.Duration {
	if stopped.Load() && InBubble() {
		return 0
	}
	return bootTime()
}
