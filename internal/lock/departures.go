package lock

import (
	"context"
	"sync"
	"time"
)

// departures counts, by the key of the server's queue, the waiters of this client that have given
// up but may still be in that queue. They are being removed in the background.
type departures struct {
	mu      sync.Mutex
	leaving map[string]*departure
}

type departure struct {
	count int
	done  chan struct{} // closed when count falls to 0
}

// Add counts one waiter. The returned function ends that.
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

// wait waits until there are none in that queue, but no longer than limit: the server may not
// answer.
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
