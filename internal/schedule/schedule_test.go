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

// bubble runs f in virtual time with a scheduler, and with a machine that f can suspend.
func bubble(t *testing.T, f func(t *testing.T, s *Scheduler, slept *atomic.Int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		begun := time.Now()
		defer clock.SetBoot(func() time.Duration { return time.Hour + time.Since(begun) + time.Duration(slept.Load()) })()
		var s Scheduler
		defer s.Close()
		f(t, &s, &slept)
	})
}

// log notes what is called, and when.
type log struct {
	begun  clock.Reading
	mu     sync.Mutex
	events []string
}

func newLog() *log { return &log{begun: clock.Mono()} }

func (l *log) event(name string) Func {
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.events = append(l.events, fmt.Sprintf("%s at %s", name, clock.Mono().Sub(l.begun)))
	}
}

func (l *log) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.events, want) {
		t.Errorf("called: %q, want %q", l.events, want)
	}
}

func TestEntriesAreCalledAtTheirTimes(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		l := newLog()
		for _, e := range []struct {
			name string
			in   time.Duration
		}{{"late", time.Minute}, {"early", time.Second}, {"overdue", -time.Second}, {"middle", 1500 * time.Millisecond}} {
			s.Set(new(Entry), l.begun.Add(e.in), l.event(e.name))
		}
		l.expect(t, "overdue at 0s")
		time.Sleep(2 * time.Minute)
		l.expect(t, "overdue at 0s", "early at 1s", "middle at 1.5s", "late at 1m0s")
	})
}

// What is due before the scheduler would look again wakes it; the rest it finds by itself.
func TestAnEarlierEntryWakesTheScheduler(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		l := newLog()
		s.Set(new(Entry), l.begun.Add(500*time.Millisecond), l.event("first"))
		synctest.Wait() // it sleeps until then
		s.Set(new(Entry), l.begun.Add(100*time.Millisecond), l.event("earlier"))
		s.Set(new(Entry), l.begun.Add(200*time.Millisecond), l.event("between"))
		s.Set(new(Entry), l.begun.Add(700*time.Millisecond), l.event("later"))
		time.Sleep(time.Second)
		l.expect(t, "earlier at 100ms", "between at 200ms", "first at 500ms", "later at 700ms")
	})
}

func TestSetReplacesWhatWasSet(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		l := newLog()
		var earlier, later, again Entry
		s.Set(&earlier, l.begun.Add(time.Hour), l.event("no"))
		s.Set(&later, l.begun.Add(time.Second), l.event("no"))
		s.Set(&earlier, l.begun.Add(2*time.Second), l.event("earlier"))
		s.Set(&later, l.begun.Add(3*time.Second), l.event("later"))
		s.Set(&again, l.begun.Add(4*time.Second), Func(func() {
			s.Set(&again, l.begun.Add(5*time.Second), l.event("again"))
		}))
		time.Sleep(2 * time.Hour)
		l.expect(t, "earlier at 2s", "later at 3s", "again at 5s")
	})
}

func TestCancelledEntriesAreNotCalled(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		l := newLog()
		var first, second, third Entry
		s.Cancel(&first) // was never set
		s.Set(&first, l.begun.Add(time.Second), l.event("no"))
		s.Set(&second, l.begun.Add(2*time.Second), l.event("second"))
		s.Set(&third, l.begun.Add(3*time.Second), l.event("no"))
		s.Cancel(&first)
		s.Cancel(&first)
		s.Cancel(&third)
		s.Set(&third, l.begun.Add(4*time.Second), l.event("third"))
		time.Sleep(time.Minute)
		s.Cancel(&second) // was called
		l.expect(t, "second at 2s", "third at 4s")
	})
}

func TestCloseDropsEntries(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		l := newLog()
		var e Entry
		s.Set(&e, l.begun.Add(time.Second), l.event("no"))
		s.Close()
		s.Set(new(Entry), l.begun, l.event("no"))
		s.Set(&e, l.begun, l.event("no"))
		s.Cancel(&e)
		s.Close()
		time.Sleep(time.Minute)
		l.expect(t)
	})
	new(Scheduler).Close() // never used
}

// Timers stop while the machine is suspended; what is measured goes on.
func TestEntriesAreDueAfterASuspension(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, slept *atomic.Int64) {
		l := newLog()
		s.Set(new(Entry), l.begun.Add(30*time.Minute), l.event("overslept"))
		s.Set(new(Entry), l.begun.Add(90*time.Minute), l.event("still to come"))
		time.Sleep(10*time.Minute + time.Millisecond)
		slept.Store(int64(time.Hour))
		time.Sleep(time.Second) // a look is not further off
		l.expect(t, "overslept at 10m1s")
		time.Sleep(time.Hour)
		l.expect(t, "overslept at 10m1s", "still to come at 30m0s")
	})
}

// Who sets what the scheduler finds by itself, as it looks each second, does not wake it: not even when it
// had nothing to do.
func TestALaterEntryWakesNobody(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		s.Set(new(Entry), clock.Mono(), Func(func() {}))
		time.Sleep(1500 * time.Millisecond) // it has looked, and has nothing to do
		looks := 0
		defer clock.SetBoot(func() time.Duration { looks++; return time.Hour })()
		for range 10 {
			var e Entry
			s.Set(&e, clock.Mono().Add(3*time.Second), Func(func() {}))
			synctest.Wait()
			s.Cancel(&e)
		}
		if looks > 0 {
			t.Errorf("it has looked %d times", looks)
		}
	})
}

// A process that stands still in a call does not sleep for what it has overslept.
func TestACallThatTakesLongDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, _ *atomic.Int64) {
		l := newLog()
		s.Set(new(Entry), l.begun.Add(100*time.Millisecond), Func(func() { time.Sleep(600 * time.Millisecond) }))
		s.Set(new(Entry), l.begun.Add(500*time.Millisecond), l.event("missed"))
		s.Set(new(Entry), l.begun.Add(900*time.Millisecond), l.event("next"))
		time.Sleep(time.Minute)
		l.expect(t, "missed at 700ms", "next at 900ms")
	})
}

func TestClocksThatDriftMoveNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *Scheduler, slept *atomic.Int64) {
		l := newLog()
		s.Set(new(Entry), l.begun.Add(time.Minute), l.event("drifted"))
		for range 30 {
			time.Sleep(time.Second)
			slept.Add(int64(50 * time.Millisecond))
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
						s.Set(&e, clock.Mono().Add(time.Second+rand.N(time.Second)), Func(func() { called.Add(1) }))
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
			t.Errorf("%d calls of %d entries", n, 8*each/2)
		}
	})
}
