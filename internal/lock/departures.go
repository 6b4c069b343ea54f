package lock

import (
	"context"
	"sync"
	"time"
)

// departures counts the waiters of this client that have given up but may still be in the server's queue, from which they are removed in
// the background. The map's keys are those of the queues.
type departures struct {
	mu      sync.Mutex
	leaving map[string]*departure
}

type departure struct {
	count int
	done  chan struct{} // closed when count falls to 0
}

// Add counts one waiter until end is called.
func (d *departures) Add(queue string) (end func()) {
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

// wait waits until no waiter of this client is leaving the queue, but no longer than limit, since the server may not answer.
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
