package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// bubble runs f in virtual time with a scheduler. f can add to suspended, the time for which the machine was suspended.
func bubble(t *testing.T, f func(t *testing.T, s *Scheduler, suspended *atomic.Int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var suspended atomic.Int64
		began := time.Now()
		defer clock.SetBoot(func() time.Duration { return time.Hour + time.Since(began) + time.Duration(suspended.Load()) })()
		var s Scheduler
		defer s.Close()
		f(t, &s, &suspended)
	})
}

type log struct {
	began  clock.Reading
	mu     sync.Mutex
	events []string
}

func newLog() *log { return &log{began: clock.Mono()} }

func (l *log) event(name string) Func {
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.events = append(l.events, fmt.Sprintf("%s at %s", name, clock.Mono()-l.began))
	}
}

func (l *log) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.events, want) {
		t.Errorf("calls: %q, want %q", l.events, want)
	}
}

func TestSetReplacesAnEarlierSet(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		l := newLog()
		var earlier, later, again Entry
		s.Set(&earlier, l.began+time.Hour, l.event("no"))
		s.Set(&later, l.began+time.Second, l.event("no"))
		s.Set(&earlier, l.began+2*time.Second, l.event("earlier"))
		s.Set(&later, l.began+3*time.Second, l.event("later"))
		s.Set(&again, l.began+4*time.Second, Func(func() {
			s.Set(&again, l.began+5*time.Second, l.event("again"))
		}))
		synctest.Wait() // it sleeps until the first is due
		s.Set(new(Entry), l.began+100*time.Millisecond, l.event("sooner"))
		time.Sleep(2 * time.Hour)
		l.expect(t, "sooner at 100ms", "earlier at 2s", "later at 3s", "again at 5s")
	})
}

func TestCancelledEntriesAreNotCalled(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		l := newLog()
		var first, second, third Entry
		s.Cancel(&first) // never set
		s.Set(&first, l.began+time.Second, l.event("no"))
		s.Set(&second, l.began+2*time.Second, l.event("second"))
		s.Set(&third, l.began+3*time.Second, l.event("no"))
		s.Cancel(&first)
		s.Cancel(&first)
		s.Cancel(&third)
		s.Set(&third, l.began+4*time.Second, l.event("third"))
		time.Sleep(time.Minute)
		s.Cancel(&second) // called already
		l.expect(t, "second at 2s", "third at 4s")
	})
}

func TestCloseDropsEntries(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		l := newLog()
		var e Entry
		s.Set(&e, l.began+time.Second, l.event("no"))
		s.Close()
		s.Set(new(Entry), l.began, l.event("no"))
		s.Set(&e, l.began, l.event("no"))
		s.Cancel(&e)
		s.Close()
		time.Sleep(time.Minute)
		l.expect(t)
	})
	new(Scheduler).Close() // never used
}

// The scheduler checks its entries each second, so an entry that is due after the next check does not wake it, even if
// it is the only one.
func TestALaterEntryDoesNotWakeTheScheduler(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		s.Set(new(Entry), clock.Mono(), Func(func() {}))
		time.Sleep(1500 * time.Millisecond) // the scheduler has made its call and one more check
		checks := 0
		defer clock.SetBoot(func() time.Duration { checks++; return time.Hour })()
		for range 10 {
			var e Entry
			s.Set(&e, clock.Mono()+3*time.Second, Func(func() {}))
			synctest.Wait()
			s.Cancel(&e)
		}
		if checks > 0 {
			t.Errorf("the scheduler checked %d times, want 0", checks)
		}
	})
}

func TestTheClockIsReadAgainAfterASlowCall(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		l := newLog()
		s.Set(new(Entry), l.began+100*time.Millisecond, Func(func() { time.Sleep(600 * time.Millisecond) }))
		s.Set(new(Entry), l.began+500*time.Millisecond, l.event("missed"))
		s.Set(new(Entry), l.began+900*time.Millisecond, l.event("next"))
		time.Sleep(time.Minute)
		l.expect(t, "missed at 700ms", "next at 900ms")
	})
}

func TestDriftBetweenTheClocksMovesNoEntries(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, suspended *atomic.Int64) {
		l := newLog()
		s.Set(new(Entry), l.began+time.Minute, l.event("drifted"))
		for range 30 {
			time.Sleep(time.Second)
			suspended.Add(int64(50 * time.Millisecond))
		}
		time.Sleep(time.Minute)
		l.expect(t, "drifted at 1m0s")
	})
}

func TestManyGoroutinesSetAndCancel(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		const each = 200
		var called atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for i := range each {
					var e Entry
					for range 3 {
						s.Set(&e, clock.Mono()+time.Second+time.Duration(i)*time.Millisecond, Func(func() { called.Add(1) }))
					}
					if i%2 == 1 {
						s.Cancel(&e)
					}
				}
			})
		}
		all.Wait()
		time.Sleep(time.Minute)
		if n := called.Load(); n != 8*each/2 {
			t.Errorf("%d calls, want %d", n, 8*each/2)
		}
	})
}

// What becomes due while a scheduler is held is called when that ends, before end returns, and everything else at its time.
func TestNothingIsCalledWhileHeld(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		l := newLog()
		early, late, during := new(Entry), new(Entry), new(Entry)
		s.Set(early, l.began+time.Second, l.event("early"))
		s.Set(late, l.began+time.Minute, l.event("late"))
		end, other := s.Hold(), s.Hold()
		s.Set(during, l.began+2*time.Second, l.event("during"))
		time.Sleep(10 * time.Second)
		end()
		end()
		l.expect(t)
		time.Sleep(10 * time.Second)
		other()
		l.mu.Lock()
		if len(l.events) != 2 {
			t.Errorf("when it returns, it has called %q", l.events)
		}
		l.mu.Unlock()
		l.expect(t, "early at 20s", "during at 20s")
		time.Sleep(time.Minute)
		l.expect(t, "early at 20s", "during at 20s", "late at 1m0s")
	})
}

// A scheduler that has nothing to do, or is closed, can be held, too.
func TestHoldOfAnIdleScheduler(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		s.Hold()()
		s.Set(new(Entry), clock.Mono()+time.Hour, Func(func() {}))
		end := s.Hold()
		s.Close()
		end()
	})
}

// After every change the first item is the earliest, and each entry knows its index.
func TestHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var h heap
		all := make([]*Entry, 1+rng.IntN(100))
		in := map[*Entry]clock.Reading{}
		for i := range all {
			all[i] = new(Entry)
		}
		for range 300 {
			e := all[rng.IntN(len(all))]
			switch rng.IntN(4) {
			case 0:
				h.remove(e)
				delete(in, e)
			case 1:
				if len(h) > 0 {
					first := h[0].entry
					h.remove(first)
					delete(in, first)
				}
			default:
				at := clock.Reading(rng.IntN(50))
				h.set(e, at)
				in[e] = at
			}
			if len(h) != len(in) {
				t.Fatalf("the heap has %d entries, want %d", len(h), len(in))
			}
			for i, x := range h {
				if at, ok := in[x.entry]; !ok || x.at != at || x.entry.index != i+1 {
					t.Fatalf("item %d has the time %d and the index %d, want %d and %d", i, x.at, x.entry.index, at, i+1)
				}
				if x.at < h[0].at {
					t.Fatalf("item %d has the time %d, earlier than the first one's %d", i, x.at, h[0].at)
				}
			}
		}
	}
}
