// Package schedule calls many things at their times, with one goroutine and one
// timer for all of them.
package schedule

import (
	"container/heap"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// Entry is something to be called. Its zero value is not scheduled.
type Entry struct {
	at    time.Time
	index int // in the heap, from 1; 0 when not scheduled
	call  Caller
}

// Caller is told when an entry is due, from the scheduler's goroutine: it must not block.
type Caller interface{ Due() }

// Func is a function as a Caller.
type Func func()

// Due calls f.
func (f Func) Due() { f() }

// Scheduler calls entries at their times. Its zero value is ready; its goroutine
// runs from the first Set until Close.
type Scheduler struct {
	mu      sync.Mutex
	entries entries
	wake    chan struct{}
	done    chan struct{}
	closed  bool
	until   time.Time     // the goroutine looks again by then, whether it is woken or not
	lag     time.Duration // of the clock that stops in suspension, when last looked at
}

// Set makes the scheduler tell f at that time, once, instead of what e was to do
// before. After Close it does nothing.
func (s *Scheduler) Set(e *Entry, at time.Time, f Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	e.at, e.call = at, f
	if e.index == 0 {
		heap.Push(&s.entries, e)
	} else {
		heap.Fix(&s.entries, e.index-1)
	}
	if s.wake == nil {
		s.wake, s.done = make(chan struct{}, 1), make(chan struct{})
		s.lag, _ = clock.Lag()
		go s.run()
	}
	if at.Before(s.until) {
		s.poke()
	}
}

// Cancel takes e out. A call that has begun is not waited for.
func (s *Scheduler) Cancel(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.index != 0 {
		heap.Remove(&s.entries, e.index-1)
	}
	e.call = nil
}

// Close ends the goroutine and drops all entries.
func (s *Scheduler) Close() {
	s.mu.Lock()
	s.closed = true
	for _, e := range s.entries {
		e.index, e.call = 0, nil
	}
	s.entries = nil
	running := s.wake != nil
	if running {
		s.poke()
	}
	s.mu.Unlock()
	if running {
		<-s.done
	}
}

func (s *Scheduler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Scheduler) run() {
	defer close(s.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, more := s.callDue()
		if !more {
			return
		}
		if lag, known := clock.Lag(); known {
			// Timers stop while the machine is suspended.
			next = min(next, time.Second)
			s.catchUp(lag)
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-s.wake:
		}
	}
}

// catchUp moves entries forward by the time that the machine was suspended since the
// last look. A few milliseconds are the clocks' own.
func (s *Scheduler) catchUp(lag time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gain := lag - s.lag; gain > 100*time.Millisecond {
		for _, e := range s.entries {
			e.at = e.at.Add(-gain)
		}
		s.poke()
	}
	s.lag = lag
}

// callDue calls what is due, and returns how long to sleep; false after Close.
func (s *Scheduler) callDue() (time.Duration, bool) {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return 0, false
		}
		if len(s.entries) == 0 {
			s.until = time.Now().Add(time.Hour)
			s.mu.Unlock()
			return time.Hour, true
		}
		e := s.entries[0]
		if wait := time.Until(e.at); wait > 0 {
			s.until = e.at
			s.mu.Unlock()
			return wait, true
		}
		heap.Pop(&s.entries)
		call := e.call
		e.call = nil
		s.mu.Unlock()
		if call != nil {
			call.Due()
		}
	}
}

// entries is a heap, earliest first.
type entries []*Entry

func (h entries) Len() int           { return len(h) }
func (h entries) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h entries) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *entries) Push(x any) {
	e := x.(*Entry)
	*h = append(*h, e)
	e.index = len(*h)
}

func (h *entries) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.index = 0
	return e
}
