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
	count int
	done  chan struct{} // closed when there are no more
}

// begin notes one. What it returns ends that.
func (d *departures) begin(queue string) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leaving == nil {
		d.leaving = map[string]*departure{}
	}
	dep := d.leaving[queue]
	if dep == nil {
		dep = &departure{done: make(chan struct{})}
		d.leaving[queue] = dep
	}
	dep.count++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		dep.count--
		if dep.count == 0 {
			delete(d.leaving, queue)
			close(dep.done)
		}
	}
}

// wait waits until none is left, for a limited time: the server may not answer.
func (d *departures) wait(ctx context.Context, queue string, limit time.Duration) {
	d.mu.Lock()
	dep := d.leaving[queue]
	d.mu.Unlock()
	if dep == nil {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-dep.done:
	case <-timer.C:
	case <-ctx.Done():
	}
}
