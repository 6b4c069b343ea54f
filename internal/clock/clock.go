// Package clock reads the clocks that leases are measured by. Deadlines are never
// wall-clock times: those jump.
package clock

import (
	"sync/atomic"
	"time"
)

// Instant is a reading of both clocks: the monotonic one, which time.Time carries
// and which stops while the machine is suspended on some systems; and the one that
// does not stop, where the system has it.
type Instant struct {
	Mono time.Time
	boot time.Duration
}

// Now reads the clocks.
func Now() Instant {
	return Instant{time.Now(), (*boot.Load())()}
}

// Since returns how long ago an instant was, by the clock that says longer.
func Since(t Instant) time.Duration {
	return Now().Sub(t)
}

// Sub returns the time from u to t, by the clock that says longer.
func (t Instant) Sub(u Instant) time.Duration {
	return max(t.Mono.Sub(u.Mono), t.boot-u.boot)
}

// IsZero reports whether t was never read.
func (t Instant) IsZero() bool { return t.Mono.IsZero() }

var boot atomic.Pointer[func() time.Duration]

func init() {
	read := bootTime
	boot.Store(&read)
}

// SetBoot makes Now read the clock that runs through suspension from read, and
// returns a function that undoes it. For tests: a machine cannot be suspended there.
func SetBoot(read func() time.Duration) (undo func()) {
	old := boot.Swap(&read)
	return func() { boot.Store(old) }
}
