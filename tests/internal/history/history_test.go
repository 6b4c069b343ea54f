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
