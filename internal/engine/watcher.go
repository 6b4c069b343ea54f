package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/notify"
)

// watcher is who watches a lock.
type watcher struct {
	c       *Client
	sub     *notify.Listener
	wakeups chan struct{} // holds an item when there is a reason to look
}

// watch begins to watch a lock, until leave. Not within a client that is closed.
func (c *Client) watch(l *Lock) (*watcher, error) {
	c.tasks.Begin() // what is subscribed to by then, Close ends
	defer c.tasks.End()
	if c.isClosing() {
		return nil, exec.ErrClosed
	}
	w := &watcher{c: c, wakeups: make(chan struct{}, 1)}
	w.sub = c.notifier.Watch(c.watchChannelOf(l), "", w.wake)
	return w, nil
}

func (w *watcher) leave() { w.sub.Leave() }

func (w *watcher) wake() {
	select {
	case w.wakeups <- struct{}{}:
	default:
	}
}

// maxWatchRest is the longest time between two looks of a watcher that is subscribed,
// maxDeafRest of one that is not, or whose look failed.
const (
	maxWatchSleep = 30 * time.Second
	maxDeafSleep  = time.Second
)

// wait waits for a reason to look again; its error says that there is to be no more looking.
// seen says that the last look was answered; what it saw may expire after ttl, if that is not
// negative.
func (w *watcher) wait(ctx context.Context, seen bool, ttl time.Duration) error {
	d := maxWatchSleep
	if !seen || !w.sub.IsUp() {
		d = maxDeafSleep
	}
	if seen && ttl >= 0 {
		d = min(d, ttl+time.Millisecond)
	}
	timer := time.NewTimer(d + rand.N(10*time.Millisecond))
	defer timer.Stop()
	select {
	case <-w.wakeups:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.c.closing:
		return exec.ErrClosed
	}
	return nil
}
