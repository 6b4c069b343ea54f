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

// Since returns how long ago an instant was.
func Since(t Instant) time.Duration {
	return Now().Sub(t)
}

// Sub returns the time from u to t: by the clock that does not stop, if it has gained
// on the other, which two readings one after the other always do a little.
func (t Instant) Sub(u Instant) time.Duration {
	mono, boot := t.Mono.Sub(u.Mono), t.boot-u.boot
	if boot-mono > time.Millisecond {
		return boot
	}
	return mono
}

// Add returns the instant d after t.
func (t Instant) Add(d time.Duration) Instant {
	return Instant{t.Mono.Add(d), t.boot + d}
}

// IsZero reports whether t was never read.
func (t Instant) IsZero() bool { return t.Mono.IsZero() }

// Lag returns by how much the clock that does not stop has gained on the monotonic one
// since the process began: how long the machine was suspended. False where the system
// has only one of them.
func Lag() (time.Duration, bool) {
	now := Now()
	return now.boot - now.Mono.Sub(begin), now.boot != 0
}

var begin = time.Now()

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
