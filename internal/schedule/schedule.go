// Package schedule calls many callers at their times, with one goroutine and one timer for all of them.
package schedule

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/compact"
)

// Entry is a call that can be scheduled. Its zero value is not scheduled.
type Entry struct {
	index  int // in the heap, from 1; 0 if not scheduled
	caller Caller
}

// Caller is what a Scheduler calls. Due runs in the scheduler's goroutine, so it must not block. now is when the scheduler last read the
// clock, a moment ago.
type Caller interface{ Due(now clock.Instant) }

// Func is a Caller that calls a function.
type Func func()

// Due calls f.
func (f Func) Due(clock.Instant) { f() }

// Scheduler calls entries at their times. Its zero value is ready to use. Its goroutine runs from the first Set until Close.
type Scheduler struct {
	mu        sync.Mutex
	entries   heap
	calling   Caller // being called now, or nil
	wakeup    chan struct{}
	done      chan struct{}
	closed    bool
	held      int             // Holds that have not ended
	behind    []chan struct{} // closed when everything due has been called
	nextCheck clock.Reading   // when the goroutine next checks the entries, unless woken earlier
	lag       time.Duration   // clock.Instant.Lag at the last check
}

// Set schedules e to call c once, at the given time, instead of what it was scheduled to do. After Close it does nothing.
func (s *Scheduler) Set(e *Entry, at clock.Reading, c Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	e.caller = c
	s.entries.set(e, at)
	if s.wakeup == nil {
		s.wakeup, s.done = make(chan struct{}, 1), make(chan struct{})
		s.lag, _ = clock.Now().Lag()
		go s.run()
	}
	if at < s.nextCheck {
		s.wake()
	}
}

// Cancel unschedules e. It does not wait for a call that has begun.
func (s *Scheduler) Cancel(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries.remove(e)
	e.caller = nil
}

// Callers returns the callers of all scheduled entries, and the one being called. It may return one twice.
func (s *Scheduler) Callers() []Caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Caller, len(s.entries), len(s.entries)+1)
	for i, x := range s.entries {
		all[i] = x.entry.caller
	}
	if s.calling != nil {
		all = append(all, s.calling)
	}
	return all
}

// Hold stops the scheduler's calls until end is called, as suspending the process would. Before end returns, everything that became due
// meanwhile has been called. Only the first call of end has an effect. Holds may overlap. They are for rehearsals.
func (s *Scheduler) Hold() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.held--
		idle := s.held > 0 || s.closed || s.wakeup == nil
		caughtUp := make(chan struct{})
		if !idle {
			s.behind = append(s.behind, caughtUp)
			s.wake()
		}
		s.mu.Unlock()
		if idle {
			return
		}
		select {
		case <-caughtUp:
		case <-s.done:
		}
	})
}

// Close drops all entries and waits for the goroutine to end.
func (s *Scheduler) Close() {
	s.mu.Lock()
	s.closed = true
	for _, x := range s.entries {
		x.entry.index, x.entry.caller = 0, nil
	}
	s.entries = nil
	running := s.wakeup != nil
	if running {
		s.wake()
	}
	s.mu.Unlock()
	if running {
		<-s.done
	}
}

func (s *Scheduler) wake() {
	select {
	case s.wakeup <- struct{}{}:
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
		if lag, ok := now.Lag(); ok {
			longest = time.Second // timers stop while the machine is suspended
			s.catchUp(lag)
		}
		wait, ok := s.callDue(now, longest)
		if !ok {
			return
		}
		if wait <= 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.wakeup:
		}
	}
}

// catchUp makes entries due earlier, by as long as the machine was suspended since the last check.
func (s *Scheduler) catchUp(lag time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gain := lag - s.lag; gain > 100*time.Millisecond { // less can be drift between the clocks
		for i := range s.entries {
			s.entries[i].at -= gain
		}
	}
	s.lag = lag
}

// maxCalls bounds the calls between two readings of the clock.
const maxCalls = 64

// callDue calls the entries that are due and returns how long to wait for the next, at most longest. It returns 0 if the clock has to be
// read again first, and false after Close.
func (s *Scheduler) callDue(now clock.Instant, longest time.Duration) (time.Duration, bool) {
	for calls := range maxCalls {
		s.mu.Lock()
		s.calling = nil
		if s.closed {
			s.mu.Unlock()
			return 0, false
		}
		wait := longest
		if len(s.entries) > 0 && s.held == 0 {
			wait = min(wait, s.entries[0].at-now.Mono)
		}
		if wait > 0 && calls > 0 { // the calls may have taken long, or the process may have been stopped
			s.mu.Unlock()
			return 0, true
		}
		if wait > 0 {
			s.nextCheck = now.Mono + wait
			if s.held == 0 {
				for _, caughtUp := range s.behind {
					close(caughtUp)
				}
				s.behind = nil
			}
			s.mu.Unlock()
			return wait, true
		}
		e := s.entries[0].entry
		s.entries.remove(e)
		caller := e.caller
		e.caller, s.calling = nil, caller
		s.mu.Unlock()
		caller.Due(now)
	}
	return 0, true
}

// item is an entry of the heap with its time. Reading the time from the entry would take longer than all else.
type item struct {
	at    clock.Reading
	entry *Entry
}

// heap is a heap of entries, earliest first: the children of i are degree*i+1 to degree*(i+1). It is wide and shallow because with many
// entries a cache miss costs more than a comparison (LaMarca and Ladner, "The Influence of Caches on the Performance of Heaps", JEA 1,
// 1996).
type heap []item

const degree = 4

// set adds e, or moves it if it is in the heap.
func (h *heap) set(e *Entry, at clock.Reading) {
	if e.index == 0 {
		*h = append(*h, item{at, e})
		e.index = len(*h)
	}
	h.place(e.index-1, item{at, e})
}

// remove removes e if it is in the heap.
func (h *heap) remove(e *Entry) {
	if e.index == 0 {
		return
	}
	gap, end := e.index-1, len(*h)-1
	last := (*h)[end]
	(*h)[end] = item{}
	*h = compact.Slice((*h)[:end])
	e.index = 0
	if gap < end {
		h.place(gap, last)
	}
}

// place overwrites the item at i with x, then moves x up or down to where it belongs.
func (h heap) place(i int, x item) {
	for i > 0 {
		parent := (i - 1) / degree
		if h[parent].at <= x.at {
			break
		}
		h.put(i, h[parent])
		i = parent
	}
	for {
		least, end := x, min(degree*i+degree, len(h)-1)
		next := i
		for child := degree*i + 1; child <= end; child++ {
			if h[child].at < least.at {
				next, least = child, h[child]
			}
		}
		if next == i {
			break
		}
		h.put(i, least)
		i = next
	}
	h.put(i, x)
}

func (h heap) put(i int, x item) {
	h[i] = x
	x.entry.index = i + 1
}

// Jitter returns d, lengthened or shortened at random by up to that many percent.
func Jitter(d time.Duration, percent int) time.Duration {
	spread := d * time.Duration(percent) / 100
	if spread <= 0 {
		return d
	}
	return d - spread + rand.N(2*spread)
}
