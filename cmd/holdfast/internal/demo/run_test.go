package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/server"
)

// realServer starts a real server, and returns its URL and what counts its keys.
func realServer(t *testing.T) (url string, keys func() []string) {
	const password = "canary-2468"
	s := server.Start(t, server.One(t), server.Conf("requirepass", password))
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Password: password})
	t.Cleanup(func() { _ = rdb.Close() })
	return "redis://:" + password + "@" + s.Addr(), func() []string {
		t.Helper()
		all, err := rdb.Keys(context.Background(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
}

func TestRunOnARealServer(t *testing.T) {
	t.Parallel()
	url, keys := realServer(t)
	var out bytes.Buffer
	began := time.Now()
	err := Run(context.Background(), Config{URL: url, Open: openURL, Workers: 3, Seed: 2, Out: &out})
	if err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, row := range []string{
		`(?m)^   draws +10$`,
		`(?m)^   grants +[\d,]+$`,
		`(?m)^   hand-overs +[\d,]+ `,
		`(?m)^   hand-over latency +[\d.]+ [mµ]s   median; p99 [\d.]+ [mµ]s`,
		`(?m)^   kills survived +1   next holder after [\d.]+ m?s`,
		`(?m)^   pauses survived +1   next holder after [\d.]+ m?s`,
		`(?m)^   stale leases refused +1$`,
		`(?m)^   stale writes refused +1$`,
		`(?m)^All 8 hold, in `,
	} {
		if !regexp.MustCompile(row).Match(out.Bytes()) {
			t.Errorf("the output has no line %s", row)
		}
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.Contains(out.String(), "canary") {
		t.Error("the output shows the password")
	}
	if t.Failed() {
		t.Logf("\n%s", &out)
	}
	if left := keys(); len(left) > 0 {
		t.Errorf("keys are left: %q", left)
	}
}

// Interrupted in the middle of the second act, it leaves nothing behind.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	url, keys := realServer(t)
	reason := errors.New("the test wants no more")
	ctx, cancel := context.WithCancelCause(context.Background())
	out := &trigger{at: "kill -9", then: func() { cancel(reason) }}
	err := Run(ctx, Config{URL: url, Open: openURL, Workers: 2, Seed: 3, Out: out})
	if !errors.Is(err, reason) {
		t.Errorf("%v\n%s", err, out.seen.String())
	}
	if left := keys(); len(left) > 0 {
		t.Errorf("keys are left: %q", left)
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
	began := time.Now()
	var last event
	c.disband(func(e event) { last = e })
	if last.Kind != wasBuried {
		t.Errorf("the last event is %+v", last)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

// A worker that ends by itself ends the demo, with what it said.
func TestWorkerThatFails(t *testing.T) {
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
