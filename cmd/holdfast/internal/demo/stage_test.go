package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// A picture that is drawn again takes itself off the screen first, and only
// itself.
func TestStageDrawsAgain(t *testing.T) {
	var out bytes.Buffer
	s := &stage{out: &out, columns: 60, rows: 20}
	s.ledger(&history{}, 3)
	const lines = 5 // a blank one, three lanes, a caption
	for _, draw := range []func(){s.redraw, func() { s.say("something") }, s.close} {
		out.Reset()
		draw()
		if got := out.String(); !strings.HasPrefix(got, "\x1b[5A\r\x1b[J") || strings.Count(got, "\x1b") != 2 {
			t.Errorf("it draws %q", got)
		}
		if got := strings.Count(out.String(), "\n"); got != lines && got != lines+1 {
			t.Errorf("%d lines: %q", got, &out)
		}
	}
	out.Reset()
	s.line("after")
	if out.String() != "after\n" {
		t.Errorf("after the picture: %q", &out)
	}
}

// Without a terminal the picture is drawn once, at the end.
func TestStagePlain(t *testing.T) {
	var out bytes.Buffer
	s := newStage(Config{Out: &out})
	s.ledger(&history{}, 2)
	s.redraw()
	s.say("something")
	if strings.Contains(out.String(), "worker 1") {
		t.Errorf("drawn too early: %q", &out)
	}
	s.close()
	if strings.Contains(out.String(), "\x1b") || strings.Count(out.String(), "worker 1") != 1 {
		t.Errorf("it says %q", &out)
	}
}

func TestLanes(t *testing.T) {
	h := sound()
	begun := instant(2000 * ms)
	var last instant
	for _, e := range h.events {
		last = max(last, e.At)
	}
	l := &lanes{history: h, workers: 3, begun: begun, ended: last}
	got := strings.Join(l.draw(&stage{}, 80), "\n")
	want := strings.Join([]string{
		"",
		"   worker 1   ✗···············       1 turns",
		"   worker 2          zzzzzzzzz       2 turns",
		"   worker 3          ░       ░       3 turns",
		"              the share of time with the lock   ✗ killed   z paused",
	}, "\n")
	if got != want {
		t.Errorf("the picture is\n%s\nnot\n%s", got, want)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                       "0 µs",
		950 * time.Microsecond:  "950 µs",
		1500 * time.Microsecond: "1.5 ms",
		42 * time.Millisecond:   "42 ms",
		1500 * time.Millisecond: "1.5 s",
		20 * time.Second:        "20 s",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%v) = %q, not %q", d, got, want)
		}
	}
	if got := thousands(1234567) + " " + thousands(123) + " " + thousands(0); got != "1,234,567 123 0" {
		t.Errorf("thousands: %s", got)
	}
}
