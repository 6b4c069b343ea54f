//go:build !linux

package keeper

import "time"

var started = time.Now()

// now reads Go's monotonic clock: keeper and parent are one process here.
func now() instant { return instant(time.Since(started)) + 1 }

// alarm rings at an instant.
type alarm struct {
	c chan struct{}
	t *time.Timer
}

func newAlarm() (*alarm, error) { return &alarm{c: make(chan struct{}, 1)}, nil }

// set replaces the instant; 0 means never.
func (a *alarm) set(at instant) {
	a.close()
	if at == 0 {
		return
	}
	a.t = time.AfterFunc(time.Duration(at-now()), func() {
		select {
		case a.c <- struct{}{}:
		default:
		}
	})
}

func (a *alarm) close() {
	if a.t != nil {
		a.t.Stop()
	}
}
