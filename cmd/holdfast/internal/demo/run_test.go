package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/holdfasttest"
)

// Interrupted in the middle of the second act, it leaves nothing behind.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	s, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer rdb.Close()
	reason := errors.New("the test wants no more")
	stopped := false
	for attempt := 0; attempt < 5 && !stopped; attempt++ { // a slow machine may leave the accident no time
		ctx, cancel := context.WithCancelCause(context.Background())
		out := &trigger{at: "kill -9", then: func() { stopped = true; cancel(reason) }}
		err = Run(ctx, Config{URL: "redis://" + s.Addr(), Open: openURL, Workers: 2, Seed: 3, Out: out})
		cancel(nil)
		if errors.Is(err, reason) != stopped {
			t.Errorf("%v\n%s", err, &out.seen)
		}
	}
	if !stopped {
		t.Error("nobody was killed in any of five runs")
	}
	if left, unknown := rdb.Keys(context.Background(), "*").Result(); unknown != nil || len(left) > 0 {
		t.Errorf("keys are left: %q, %v; the demo ended with %v", left, unknown, err)
	}
}

// trigger does something when a text is written to it.
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

// A worker that is paused when the demo ends is ended too, without waiting.
func TestDisbandPausedWorker(t *testing.T) {
	t.Parallel()
	if !canPause {
		t.Skip("this system cannot pause a process")
	}
	s, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := newCrew(brief{URL: "redis://" + s.Addr(), Prefix: newPrefix(), TTL: ttl, Locked: true})
	if err := c.start(1); err != nil {
		t.Fatal(err)
	}
	if e := <-c.events; e.Kind != isReady {
		t.Fatalf("the worker's first word is %+v", e)
	}
	if err := c.pause(1); err != nil {
		t.Fatal(err)
	}
	c.patience = time.Hour
	var last event
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		c.disband(func(e event) { last = e })
	}()
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Fatal("the paused worker is given time to end by itself")
	}
	if last.Kind != wasBuried {
		t.Errorf("the last event is %+v", last)
	}
}

// A worker that ends by itself ends the demo, with what it said.
func TestWorkerThatFails(t *testing.T) {
	t.Parallel()
	d := newDirector(Config{Workers: 2}, newStage(Config{JSON: true}), newCrew(brief{Locked: true}))
	d.crew.brief.URL = "gopher://"
	err := d.play(context.Background())
	d.crew.disband(func(event) {})
	if err == nil || !strings.Contains(err.Error(), "invalid URL scheme") {
		t.Errorf("error %v", err)
	}
}

func TestReport(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(*history)
		fails string // "" if nothing does
		says  string
	}{
		{"sound", func(*history) {}, "", "\nAll 8 hold, in 9 s."},
		{"overlap", change(isGrant, 3, func(e *event) { e.At -= 2 * ms }), "1 of 8 checks failed: never two holders at once",
			"\n   FAILED  never two holders at once\n           lottery: worker 2 got the lock 1.0 ms before worker 1 let go of it\n"},
		{"two", func(h *history) { h.total--; h.winners = nil }, "2 of 8 checks failed: 10 draws, 10 different winners; no update lost",
			"\n   FAILED  no update lost\n           4 writes were accepted, and the ledger stands at 3\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := sound()
			test.spoil(h)
			for _, asJSON := range []bool{false, true} {
				var out bytes.Buffer
				cfg := Config{Workers: 4, Out: &out, JSON: asJSON}
				err := report(cfg, summarize(cfg, "somewhere", h, 9*time.Second))
				var failed *FailedError
				switch {
				case test.fails == "" && err != nil:
					t.Error(err)
				case test.fails != "" && (!errors.As(err, &failed) || err.Error() != test.fails):
					t.Errorf("error %v", err)
				}
				if !asJSON {
					if !strings.Contains(out.String(), test.says) {
						t.Errorf("it says:\n%s", &out)
					}
					continue
				}
				var sum Summary
				if err := json.Unmarshal(out.Bytes(), &sum); err != nil {
					t.Fatal(err)
				}
				if sum.OK != (test.fails == "") || len(sum.Checks) != 8 || sum.KillsSurvived != 1 || sum.PausesSurvived != 1 ||
					sum.StaleLeasesRefused != 1 || sum.StaleWritesRefused != 1 || sum.Draws != places {
					t.Errorf("summary %s", &out)
				}
			}
		})
	}
}
