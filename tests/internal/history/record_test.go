package history

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// lapse waits until the clock has advanced. Some clocks are coarse.
func lapse() {
	for began := Now(); Now() == began; {
		time.Sleep(time.Microsecond)
	}
}

// What is read is what was recorded, but for the unfinished last line of a process that was killed.
func TestRecordedHistory(t *testing.T) {
	var file bytes.Buffer
	r := NewRecorder(&file)
	var lock sync.Mutex
	var fence uint64
	var workers sync.WaitGroup
	for g := range 4 {
		workers.Go(func() {
			for range 25 {
				a := r.Ask(g, "lock")
				lock.Lock()
				fence++
				a.Granted(fence, time.Now())
				deadline := time.Now().Add(time.Hour)
				a.Extended(deadline)
				lapse()
				a.Released(deadline)
				lock.Unlock()
			}
		})
	}
	workers.Wait()
	r.Ask(9, "lock").GaveUp()
	events, err := r.Events()
	if err != nil || len(events) != 101 {
		t.Fatalf("%d events, %v; want 101", len(events), err)
	}
	for _, e := range events[:100] {
		if e.Process != os.Getpid() || e.Asked == 0 || e.Granted < e.Asked || e.Released <= e.Granted || e.Deadline-e.Granted < int64(time.Minute) {
			t.Errorf("bad event %+v", e)
		}
	}
	if violations := Check(events); len(violations) != 0 {
		t.Errorf("a mutex is no mutex: %v", violations)
	}
	file.WriteString(`{"id":1,"process":2,"gorou`)
	if stored, err := Read(&file); err != nil || !reflect.DeepEqual(stored, events) {
		t.Errorf("stored and read, %d events differ from those recorded: %v", len(stored), err)
	}
	for _, text := range []string{"nonsense\n", `{"id":0,"surprise":1}` + "\n"} {
		expect.Fails(t, fmt.Sprintf("Read of %q", text), expect.ErrOf(Read(strings.NewReader(text))))
	}
}

// Now reads the clock that other processes read, not just one that runs as fast, and At agrees with it.
func TestNowIsTheSharedClock(t *testing.T) {
	best := time.Hour
	for range 100 { // the machine may be busy between two readings
		before := nanotime()
		now := Now()
		best = min(best, time.Duration(max(before-now, now-nanotime())))
	}
	expect.AtMost(t, "how far Now is from the shared clock", best, 100*time.Microsecond)
	now := time.Now()
	expect.Equal(t, "5 s in ns", At(now.Add(5*time.Second))-At(now), 5e9)
}

func TestFairness(t *testing.T) {
	event := func(p, g int, asked, granted, gaveUp int64) Event {
		return Event{Process: p, Goroutine: g, Name: "lock", Asked: asked, Granted: granted, GaveUp: gaveUp, Deadline: granted + 1}
	}
	for name, c := range map[string]struct {
		events []Event
		want   Report
	}{
		"nothing": {nil, Report{}},
		"even": {
			[]Event{event(1, 1, 10, 20, 0), event(1, 2, 10, 40, 0), event(2, 1, 30, 50, 0)},
			Report{Grants: 3, LongestWait: 30, MeanWait: 20, Jain: 1},
		},
		"one gets all, and one still waits": {
			[]Event{event(1, 1, 10, 20, 0), event(1, 1, 20, 30, 0), event(1, 2, 10, 0, 100), event(2, 1, 10, 0, 20), event(2, 2, 10, 0, 20), event(3, 1, 10, 0, 0)},
			Report{Grants: 2, LongestWait: 90, MeanWait: 10, Jain: 0.25},
		},
	} {
		expect.Equal(t, name+": got", Fairness(c.events), c.want)
	}
}
