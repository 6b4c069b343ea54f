//go:build !linux

package keeper

import (
	"os"
	"time"
)

var started = time.Now()

// systemClock is Go's monotonic clock. It suffices because keeper and parent are one process here.
type systemClock struct{}

func (systemClock) now() instant { return instant(time.Since(started)) + 1 }

func (systemClock) newAlarm() (alarm, error) { return &timer{c: make(chan os.Signal, 1)}, nil }

type timer struct {
	c chan os.Signal
	t *time.Timer
}

func (a *timer) rings() <-chan os.Signal { return a.c }

func (a *timer) set(at instant) {
	a.close()
	if at == 0 {
		return
	}
	a.t = time.AfterFunc(time.Duration(at-systemClock{}.now()), func() {
		select {
		case a.c <- nil:
		default:
		}
	})
}

func (a *timer) close() {
	if a.t != nil {
		a.t.Stop()
	}
}
