// Package schedule calls many things at their times, with one goroutine and one
// timer for all of them.
package schedule

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// Entry is something to be called. Its zero value is not scheduled.
type Entry struct {
	index int // in the heap, from 1; 0 when not scheduled
	call  Caller
}

// Caller is told when an entry is due, from the scheduler's goroutine: it must not block. now is
// when the scheduler last looked, a moment ago.
type Caller interface{ Due(now clock.Instant) }

// Func is a function as a Caller.
type Func func()

// Due calls f.
func (f Func) Due(clock.Instant) { f() }

// Scheduler calls entries at their times. Its zero value is ready; its goroutine
// runs from the first Set until Close.
type Scheduler struct {
	mu      sync.Mutex
	entries entries
	wake    chan struct{}
	done    chan struct{}
	closed  bool
	until   clock.Reading // the goroutine looks again by then, whether it is woken or not
	lag     time.Duration // of the clock that stops in suspension, when last looked at
}

// Set makes the scheduler tell f at that time, once, instead of what e was to do
// before. After Close it does nothing.
func (s *Scheduler) Set(e *Entry, at clock.Reading, f Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	e.call = f
	s.entries.set(e, at)
	if s.wake == nil {
		s.wake, s.done = make(chan struct{}, 1), make(chan struct{})
		s.lag, _ = clock.Now().Lag()
		go s.run()
	}
	if at < s.until {
		s.poke()
	}
}

// Cancel takes e out. A call that has begun is not waited for.
func (s *Scheduler) Cancel(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries.remove(e)
	e.call = nil
}

// Callers returns whom it is to tell of anything.
func (s *Scheduler) Callers() []Caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Caller, len(s.entries))
	for i, t := range s.entries {
		all[i] = t.entry.call
	}
	return all
}

// Close ends the goroutine and drops all entries.
func (s *Scheduler) Close() {
	s.mu.Lock()
	s.closed = true
	for _, t := range s.entries {
		t.entry.index, t.entry.call = 0, nil
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
		now := clock.Now()
		longest := time.Hour
		if lag, known := now.Lag(); known {
			// Timers stop while the machine is suspended.
			longest = time.Second
			s.catchUp(lag)
		}
		next, more := s.callDue(now, longest)
		if !more {
			return
		}
		if next <= 0 {
			continue
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
		for i := range s.entries {
			s.entries[i].at = s.entries[i].at.Add(-gain)
		}
	}
	s.lag = lag
}

// maxCalls bounds how many are called with one look at the clock.
const maxCalls = 64

// callDue calls what is due, and returns how long to sleep, 0 if it is to be called again with another look
// at the clock; false after Close.
func (s *Scheduler) callDue(now clock.Instant, longest time.Duration) (time.Duration, bool) {
	for called := range maxCalls {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return 0, false
		}
		wait := longest
		if len(s.entries) > 0 {
			wait = min(wait, s.entries[0].at.Sub(now.Mono))
		}
		if wait > 0 && called > 0 { // for a while, perhaps: the process may have stood still
			s.mu.Unlock()
			return 0, true
		}
		if wait > 0 {
			s.until = now.Mono.Add(wait)
			s.mu.Unlock()
			return wait, true
		}
		e := s.entries[0].entry
		s.entries.remove(e)
		call := e.call
		e.call = nil
		s.mu.Unlock()
		call.Due(now)
	}
	return 0, true
}
