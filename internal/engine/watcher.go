package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/notify"
)

// Watcher waits for a lock to change.
type Watcher struct {
	c       *Client
	sub     *notify.Listener
	wakeups wakeups
}

// Watch starts watching the lock. The caller must call Leave in the end. Watch fails if the client is closing.
func (l *Target) Watch() (*Watcher, error) {
	c := l.c
	defer c.Enter().End() // Close waits for this, and then ends the subscriptions
	if c.IsClosing() {
		return nil, exec.ErrClosed
	}
	w := &Watcher{c: c, wakeups: make(wakeups, 1)}
	w.sub = c.notifier.Watch(c.watchChannelOf(l), "", w.wakeups.wake)
	return w, nil
}

// Leave ends watching.
func (w *Watcher) Leave() { w.sub.Leave() }

// maxWatchSleep is the longest time between two checks. It is maxDeafSleep while the watcher is not subscribed, or if the last check
// failed.
const (
	maxWatchSleep = 30 * time.Second
	maxDeafSleep  = time.Second
)

// Wait waits for a reason to check again. It returns an error if the caller should stop. answered says that the last check was answered;
// what that found may expire after ttl, unless ttl is negative.
func (w *Watcher) Wait(ctx context.Context, answered bool, ttl time.Duration) error {
	d := maxWatchSleep
	if !answered || !w.sub.IsUp() {
		d = maxDeafSleep
	}
	if answered && ttl >= 0 {
		d = min(d, ttl+time.Millisecond)
	}
	timer := time.NewTimer(d + rand.N(10*time.Millisecond))
	defer timer.Stop()
	select {
	case <-w.wakeups:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.c.Closing:
		return exec.ErrClosed
	}
	return nil
}
