package history

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// lapse waits until the clock has advanced. Some clocks are coarse.
func lapse() {
	for began := Now(); Now() == began; {
		time.Sleep(time.Microsecond)
	}
}

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
				deadline := time.Now().Add(time.Hour)
				a.Granted(fence, deadline)
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
		if e.Process != os.Getpid() || e.Asked == 0 || e.Granted < e.Asked || e.Released <= e.Granted {
			t.Errorf("bad event %+v", e)
		}
	}
	if violations := Check(events); len(violations) != 0 {
		t.Errorf("a mutex is no mutex: %v", violations)
	}

	stored, err := Read(&file)
	if err != nil || !reflect.DeepEqual(stored, events) {
		t.Errorf("stored and read, %d events differ from those recorded: %v", len(stored), err)
	}
}

func TestExtendedMovesTheEnd(t *testing.T) {
	r := NewRecorder(nil)
	a, b := r.Ask(1, "lock"), r.Ask(2, "lock")
	a.Granted(1, time.Now().Add(time.Millisecond))
	a.Extended(time.Now().Add(time.Hour))
	time.Sleep(2 * time.Millisecond)
	b.Granted(2, time.Now().Add(time.Hour))
	events, _ := r.Events()
	if violations := Check(events); len(violations) != 1 || violations[0].Rule != Exclusion {
		t.Errorf("got %v; want one overlap", violations)
	}
}

type brokenFile struct{}

func (brokenFile) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestRecorderReportsAFailedWrite(t *testing.T) {
	r := NewRecorder(brokenFile{})
	r.Ask(1, "lock").GaveUp()
	if _, err := r.Events(); err == nil || err.Error() != "disk full" {
		t.Errorf("got %v; want disk full", err)
	}
}

func TestReadFilesMergesProcesses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := write("one", `{"id":0,"process":1,"goroutine":0,"name":"lock","fence":1,"asked":5,"granted":10,"deadline":50}
{"id":1,"process":1,"goroutine":0,"name":"lock","asked":5,"gave_up":10}
{"id":0,"process":1,"goroutine":0,"name":"lock","fence":1,"asked":5,"granted":10,"released":20,"deadline":50}
`)
	killed := write("killed", `{"id":0,"process":2,"goroutine":0,"name":"lock","fence":2,"asked":5,"granted":15,"deadline":50}
{"id":1,"process":2,"gorou`)
	events, err := ReadFiles(one, killed)
	if err != nil {
		t.Fatal(err)
	}
	want := []Event{
		{Process: 1, Name: "lock", Fence: 1, Asked: 5, Granted: 10, Released: 20, Deadline: 50},
		{ID: 1, Process: 1, Name: "lock", Asked: 5, GaveUp: 10},
		{Process: 2, Name: "lock", Fence: 2, Asked: 5, Granted: 15, Deadline: 50},
	}
	if !reflect.DeepEqual(events, want) {
		t.Errorf("got  %+v\nwant %+v", events, want)
	}
	if violations := Check(events); len(violations) != 1 || violations[0].Rule != Exclusion {
		t.Errorf("got %v; want one overlap", violations)
	}

	for _, text := range []string{"nonsense\n", `{"id":0,"surprise":1}` + "\n", "\n"} {
		if _, err := ReadFiles(one, write("bad", text)); err == nil || !strings.Contains(err.Error(), "bad: history: line 1") {
			t.Errorf("reading %q: %v", text, err)
		}
	}
	if _, err := ReadFiles(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading a missing file: %v", err)
	}
}
