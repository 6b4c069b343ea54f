// Package clock reads the clocks that leases are measured by. Deadlines are never
// wall-clock times: those jump.
package clock

import (
	"sync/atomic"
	"time"
)

// Instant is a reading of both clocks: the monotonic one, which stops while the machine is
// suspended on some systems; and the one that does not stop, where the system has it.
type Instant struct {
	Mono Reading
	boot time.Duration
}

// Reading is one of the monotonic clock, in ns. It is 0 for none.
type Reading int64

// origin is the reading at the process's beginning: high enough for all others to be above 0,
// in tests in virtual time, too, where it is the year 2000.
const origin Reading = 1 << 61

// Mono reads the monotonic clock.
func Mono() Reading { return origin + Reading(time.Since(begin)) }

// Sub returns the time from u to r.
func (r Reading) Sub(u Reading) time.Duration { return time.Duration(r - u) }

// Add returns the reading d after r.
func (r Reading) Add(d time.Duration) Reading { return r + Reading(d) }

// Time returns the time of a reading, as the wall clock has it now.
func (r Reading) Time() time.Time {
	now := time.Now()
	return now.Add(r.Sub(origin) - now.Sub(begin))
}

// Now reads the clocks.
func Now() Instant {
	return Instant{Mono(), (*boot.Load())()}
}

// Awake reads the monotonic clock alone: what is compared with it knows of no suspension. The other
// clock takes a system call.
func Awake() Instant { return Instant{Mono: Mono()} }

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
func (t Instant) IsZero() bool { return t.Mono == 0 }

// Lag returns by how much the clock that does not stop has gained on the monotonic one
// since the process began: how long the machine was suspended. False where the system
// has only one of them.
func (t Instant) Lag() (time.Duration, bool) {
	return t.boot - t.Mono.Sub(origin), t.boot != 0
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
