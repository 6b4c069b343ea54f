package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/holdfasttest"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// TestMain makes the test binary a worker if the demo starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == WorkerArg {
		if err := Worker(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A demo that is interrupted during the second act returns the context's cause.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	reason := errors.New("the test wants no more")
	stopped := false
	for attempt := 0; attempt < 5 && !stopped; attempt++ { // on a slow machine there may be no time for the accident
		ctx, cancel := context.WithCancelCause(context.Background())
		out := &trigger{at: "kill -9", then: func() { stopped = true; cancel(reason) }}
		err := Run(ctx, Config{Workers: 2, Seed: 3, Out: out})
		cancel(nil)
		if errors.Is(err, reason) != stopped {
			t.Errorf("%v\n%s", err, &out.seen)
		}
	}
	if !stopped {
		t.Error("nobody was killed in any of five runs")
	}
}

// trigger calls a function when a text is written to it.
type trigger struct {
	seen bytes.Buffer
	at   string
	then func()
}

func (w *trigger) Write(p []byte) (int, error) {
	w.seen.Write(p)
	if strings.Contains(w.seen.String(), w.at) {
		w.then()
	}
	return len(p), nil
}

// A worker that is paused when the demo ends is killed without delay.
func TestPausedWorkersAreEndedAtOnce(t *testing.T) {
	t.Parallel()
	if !canPause {
		t.Skip("this system cannot pause a process")
	}
	s, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := newProcesses(assignment{Addr: s.Addr(), Locked: true})
	if err := p.start(1); err != nil {
		t.Fatal(err)
	}
	if e := <-p.events; e.Kind != Ready {
		t.Fatalf("the worker's first event is %+v", e)
	}
	if err := p.signal(1, terminal.Stop); err != nil {
		t.Fatal(err)
	}
	p.patience = time.Hour
	var last Event
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		p.end(func(e Event) { last = e })
	}()
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Fatal("the demo waits for the paused worker to end by itself")
	}
	if last.Kind != Gone {
		t.Errorf("the last event is %+v", last)
	}
}

// A worker that ends unexpectedly ends the demo with its error.
func TestWorkerThatFails(t *testing.T) {
	t.Parallel()
	d := newDirector(context.Background(), Config{Workers: 2}, newScreen(io.Discard), assignment{Locked: true, Addr: "127.0.0.1:0"})
	err := d.direct()
	d.processes.end(func(Event) {})
	if err == nil || !strings.Contains(err.Error(), "server is unavailable") {
		t.Errorf("error %v", err)
	}
}

func TestSummary(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(*History)
		fails string // "" if nothing does
		says  string
	}{
		{"sound", func(*History) {}, "", "\nAll 8 hold, in 9s."},
		{"overlap", Change(Granted, 3, func(e *Event) { e.At -= 2 * time.Millisecond }), "1 of 8 checks failed: never two holders at once",
			"\n   FAILED  never two holders at once\n           lottery: worker 2 got the lock 1ms before worker 1 gave it up\n"},
		{"two", func(h *History) { h.Total--; h.Winners = nil }, "2 of 8 checks failed: 10 draws, 10 different winners; no update lost",
			"\n   FAILED  no update lost\n           4 writes were accepted, but the ledger has 3\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := Sound()
			test.spoil(h)
			s := summarize(Config{Workers: 4}, h, 9*time.Second)
			if err := s.failed(); (err == nil) != (test.fails == "") || err != nil && err.Error() != test.fails {
				t.Errorf("error %v", err)
			}
			var out bytes.Buffer
			if s.show(newScreen(&out)); !strings.Contains(out.String(), test.says) {
				t.Errorf("it says:\n%s", &out)
			}
			if s.OK != (test.fails == "") || len(s.Checks) != 8 || len(s.AfterKillMillis) != 1 || len(s.AfterPauseMillis) != 1 ||
				s.StaleLeasesRefused != 1 || s.StaleWritesRefused != 1 || s.Draws != Places {
				t.Errorf("summary %+v", s)
			}
		})
	}
}
