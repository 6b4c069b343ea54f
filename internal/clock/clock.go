// Package clock reads the clocks that measure leases. Deadlines are never wall-clock times, since the wall clock can jump.
package clock

import (
	"sync/atomic"
	"time"
)

// Instant is a reading of two clocks: the monotonic clock, which on some systems stops while the machine is suspended, and the boot clock,
// which never stops but does not exist everywhere.
type Instant struct {
	Mono Reading
	boot time.Duration
}

// Reading is a reading of the monotonic clock: the time since its origin. The zero Reading means that there is none.
type Reading = time.Duration

// origin is the reading at the start of the process. It is large enough to keep every reading above 0, even in tests in virtual time, where
// the clock starts in the year 2000.
const origin Reading = 1 << 61

// Mono reads the monotonic clock.
func Mono() Reading { return origin + time.Since(start) }

// Time returns a reading as a wall-clock time, by the present setting of the wall clock.
func Time(r Reading) time.Time {
	now := time.Now()
	return now.Add(r - origin - now.Sub(start))
}

// Now reads both clocks.
func Now() Instant {
	return Instant{Mono(), (*boot.Load())()}
}

// Awake reads only the monotonic clock, which saves a system call. Comparisons with the result ignore suspensions.
func Awake() Instant { return Instant{Mono: Mono()} }

// Since returns the time elapsed since t.
func Since(t Instant) time.Duration {
	return Now().Sub(t)
}

// Sub returns the time from u to t. If the boot clock has gained on the monotonic clock, the machine was suspended, and the boot clock
// decides.
func (t Instant) Sub(u Instant) time.Duration {
	mono, boot := t.Mono-u.Mono, t.boot-u.boot
	if boot-mono > time.Millisecond { // less is the time between reading the two clocks
		return boot
	}
	return mono
}

// Between returns the time from u to t, in whichever order they were read. Neither may be zero.
func Between(u, t Instant) time.Duration {
	if t.Mono < u.Mono {
		return -u.Sub(t) // Sub returns the longer time of the two clocks
	}
	return t.Sub(u)
}

// Add returns the instant d after t.
func (t Instant) Add(d time.Duration) Instant {
	return Instant{t.Mono + d, t.boot + d}
}

// IsZero reports whether t was never read.
func (t Instant) IsZero() bool { return t.Mono == 0 }

// Lag returns how far the boot clock is ahead of the monotonic time since the process started. It grows only while the machine is
// suspended. Lag returns false if the system has no boot clock.
func (t Instant) Lag() (time.Duration, bool) {
	return t.boot - (t.Mono - origin), t.boot != 0
}

var start = time.Now()

var boot atomic.Pointer[func() time.Duration]

var system = Boot

func init() { boot.Store(&system) }

// SetBoot makes Now read the boot clock by calling read instead of Boot, and returns a function that undoes that. It is for tests, which
// cannot suspend the machine, and whose virtual time the boot clock does not know.
func SetBoot(read func() time.Duration) (undo func()) {
	old := boot.Swap(&read)
	return func() { boot.Store(old) }
}

// StopBootInBubbles stops the boot clock in bubbles, for good, unless SetBoot has replaced it. It would otherwise run on while virtual time
// stands still, and show a suspension that did not happen. Outside bubbles it runs as before, since tests in and out of bubbles run at the
// same time.
func StopBootInBubbles() {
	read := func() time.Duration {
		if InBubble() {
			return 0
		}
		return Boot()
	}
	boot.CompareAndSwap(&system, &read)
}

// InBubble reports whether the caller is in a bubble of testing/synctest, where time starts in the year 2000.
func InBubble() bool { return time.Now().Year() < 2020 }
