package engine

import (
	"context"
	"sync"
	"time"
)

// departures are the waiters of this client that have given up, and whose places in the server's queues
// are being given up in the background, by the queue's key.
type departures struct {
	mu      sync.Mutex
	leaving map[string]*departure
}

type departure struct {
	n    int
	over chan struct{} // closed when there are no more
}

// begin notes one. What it returns ends that.
func (d *departures) begin(queue string) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leaving == nil {
		d.leaving = map[string]*departure{}
	}
	l := d.leaving[queue]
	if l == nil {
		l = &departure{over: make(chan struct{})}
		d.leaving[queue] = l
	}
	l.n++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		l.n--
		if l.n == 0 {
			delete(d.leaving, queue)
			close(l.over)
		}
	}
}

// wait waits until none is left, for a limited time: the server may not answer.
func (d *departures) wait(ctx context.Context, queue string, limit time.Duration) {
	d.mu.Lock()
	l := d.leaving[queue]
	d.mu.Unlock()
	if l == nil {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.over:
	case <-timer.C:
	case <-ctx.Done():
	}
}
