package exec

import "sync"

// Tasks counts work that a client waits for before it is closed.
type Tasks struct {
	mu   sync.Mutex
	n    int
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

// Begin begins a task, which End ends.
func (t *Tasks) Begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
}

// End ends a task.
func (t *Tasks) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n--
	if t.n == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// None reports whether no task is left.
func (t *Tasks) None() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n == 0
}

// Wait returns when no task is left. Until then tasks may start others.
func (t *Tasks) Wait() {
	for {
		t.mu.Lock()
		if t.n == 0 {
			t.mu.Unlock()
			return
		}
		if t.idle == nil {
			t.idle = make(chan struct{})
		}
		idle := t.idle
		t.mu.Unlock()
		<-idle
	}
}

// Limiter runs a bounded number of tasks at a time, in the order in which they were given to it. Its fields are set
// before its first use.
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

// next returns the next function of the backlog. If there is none, it returns nil, and its caller is busy no more.
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
