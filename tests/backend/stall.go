package backend

import (
	"sync"
	"testing"
	"time"
)

// A machine that is shared stands still at times, for seconds: for the process and for its
// servers. What a test asks of time it can ask only while that did not happen, and has to
// tell it from what the lock does.

// noticeable is how long the process has to stand still to be excused for it: half of the
// shortest timeout in these tests.
const noticeable = 300 * time.Millisecond

// stalls are the times at which the process went on, after it had stood still.
var stalls = watchForStalls()

type stallWatch struct {
	mu   sync.Mutex
	ends []time.Time
}

func watchForStalls() *stallWatch {
	w := &stallWatch{}
	go func() {
		const step = 20 * time.Millisecond
		for last := time.Now(); ; {
			time.Sleep(step)
			now := time.Now()
			if now.Sub(last) > step+noticeable {
				w.mu.Lock()
				w.ends = append(w.ends, now)
				w.mu.Unlock()
			}
			last = now
		}
	}()
	return w
}

// Stalled reports whether the process stood still since then.
func Stalled(since time.Time) bool {
	time.Sleep(noticeable / 10) // the watch, too, has to go on first
	stalls.mu.Lock()
	defer stalls.mu.Unlock()
	n := len(stalls.ends)
	return n > 0 && stalls.ends[n-1].After(since)
}

// Undisturbed requires that f, which has timeouts run out or not run out, returns nil. An
// attempt in which the process stood still proves nothing when it fails, and is made again.
func Undisturbed(tb testing.TB, f func() error) {
	tb.Helper()
	for range 10 {
		began := time.Now()
		err := f()
		if err == nil {
			return
		}
		if !Stalled(began) {
			tb.Fatal(err)
		}
		tb.Logf("once more, since the machine stood still: %v", err)
	}
	tb.Fatal("the machine stood still in each of ten attempts")
}
