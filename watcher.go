package holdfast

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// watcher is the Sink of one who watches a lock.
type watcher struct {
	up   atomic.Bool
	news chan struct{} // holds an item when there is a reason to look
}

func (w *watcher) Up() {
	w.up.Store(true)
	w.look()
}

func (w *watcher) Down(error) { w.up.Store(false) }

func (w *watcher) Message(string) { w.look() }

func (w *watcher) look() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// rest waits for a reason to look again; false if there is to be no more looking. A lock that
// is held may expire after ttl.
func (w *watcher) rest(ctx context.Context, c *Client, held bool, ttl time.Duration) bool {
	d := maxWatchRest
	if !w.up.Load() {
		d = maxDeafRest
	}
	if held && ttl >= 0 {
		d = min(d, ttl+time.Millisecond)
	}
	timer := time.NewTimer(d + rand.N(10*time.Millisecond))
	defer timer.Stop()
	select {
	case <-w.news:
	case <-timer.C:
	case <-ctx.Done():
		return false
	case <-c.closing:
		return false
	}
	return true
}
