package exec

import (
	"sync"
	"sync/atomic"
)

// Tasks counts tasks that a client waits for before it closes.
type Tasks struct {
	n atomic.Int64

	mu   sync.Mutex
	idle chan struct{} // closed when n falls to 0; nil while nobody waits
}

// Run calls f in a goroutine, as a task.
func (t *Tasks) Run(f func()) {
	t.Begin()
	go func() {
		defer t.End()
		f()
	}()
}

// Begin begins a task. End ends it.
func (t *Tasks) Begin() { t.n.Add(1) }

func (t *Tasks) End() {
	if t.n.Add(-1) != 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle != nil {
		close(t.idle) // Wait checks again, since new tasks may have begun
		t.idle = nil
	}
}

// None reports whether no tasks are left.
func (t *Tasks) None() bool { return t.n.Load() == 0 }

// Wait waits until no tasks are left. Tasks may start others meanwhile.
func (t *Tasks) Wait() {
	for {
		t.mu.Lock()
		if t.idle == nil {
			t.idle = make(chan struct{})
		}
		idle := t.idle
		t.mu.Unlock()
		// If tasks are left, the last one to end finds the channel.
		if t.None() {
			return
		}
		<-idle
	}
}

// Limiter runs a bounded number of tasks at a time, in the order in which they arrive. Its fields are set before its first use.
type Limiter struct {
	Tasks *Tasks
	Most  int

	mu      sync.Mutex
	busy    int
	backlog []func()
}

// Run calls f in a goroutine, now or after earlier functions. It does not block.
func (l *Limiter) Run(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy == l.Most {
		l.backlog = append(l.backlog, f)
		return
	}
	l.busy++
	l.Tasks.Run(func() {
		for f != nil {
			f()
			f = l.next()
		}
	})
}

// Waiting returns how many functions wait for earlier ones.
func (l *Limiter) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.backlog)
}

// next returns the next function of the backlog. If there is none, it returns nil and counts its caller as no longer busy.
func (l *Limiter) next() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.backlog) == 0 {
		l.busy--
		return nil
	}
	f := l.backlog[0]
	l.backlog = l.backlog[1:]
	return f
}
