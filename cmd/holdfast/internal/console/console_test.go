package console

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
)

// A message is one line of text, whatever its parts contain.
func TestMessagesAreEscaped(t *testing.T) {
	const bad = "\x1b[2J\x1b]0;owned\a\u202e\xff\r\nholdfast: released"
	for what, say := range map[string]func(c *Console){
		"an error":       func(c *Console) { c.Error(errors.New(bad)) },
		"a note":         func(c *Console) { c.Notef("%s", bad) },
		"a detail":       func(c *Console) { c.Detailf("%s", bad) },
		"a log record":   func(c *Console) { c.Logger().Warn("evicts", "seen", bad) },
		"a long message": func(c *Console) { c.Notef("%s", strings.Repeat("x", 1<<20)) },
	} {
		var said bytes.Buffer
		say(New(&said, Verbose))
		line, ended := strings.CutSuffix(said.String(), "\n")
		if !ended || !strings.HasPrefix(line, "holdfast: ") || len(line) > 20_000 || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: %.300q", what, said.String())
		}
	}
}

// A message that quotes an error of the library names holdfast once.
func TestMessagesNameHoldfastOnce(t *testing.T) {
	err := errors.New("holdfast: lease lost")
	for what, say := range map[string]func(c *Console){
		"an error":  func(c *Console) { c.Error(err) },
		"a note":    func(c *Console) { c.Notef("%q was not released: %v", "a", err) },
		"a warning": func(c *Console) { c.Warnf("%v; go on", err) },
		"a detail":  func(c *Console) { c.Detailf("closing: %v", err) },
	} {
		var said bytes.Buffer
		say(New(&said, Verbose))
		if n := strings.Count(said.String(), "holdfast: "); n != 1 || !strings.Contains(said.String(), "lease lost") {
			t.Errorf("%s: %q", what, said.String())
		}
	}
}

func TestRedact(t *testing.T) {
	c := New(nil, Normal)
	c.Hide("hunter2", "abc")
	for text, want := range map[string]string{
		"nothing":                               "nothing",
		"WRONGPASS hunter2":                     "WRONGPASS [redacted]",
		"PING abc":                              "PING [redacted]",
		"'abc' in abcde is abc.":                "'[redacted]' in [redacted]de is [redacted].",
		"redis://a?master_name=m&password=xyz1": "redis://a?master_name=m&password=[redacted]",
		"?sentinel_password=x&db=1":             "?sentinel_password=[redacted]&db=1",
		`parse "redis://user:p@ss@host": x`:     `parse "redis://host": x`,
		"redis://u:p@a:1 and rediss://u:p@b:1,": "redis://a:1 and rediss://b:1,",
	} {
		if got := c.Redact(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// The command itself reports losses and outages, and what it does about them.
func TestLossesAreNoNotes(t *testing.T) {
	var said bytes.Buffer
	log := New(&said, Normal).Logger()
	log.Warn("holdfast: lease lost", "lock", "x")
	log.Warn("holdfast: server does not answer", "server", "x")
	log.Info("holdfast: server answers again", "server", "x")
	if said.Len() > 0 {
		t.Errorf("%q", said.String())
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                         "0s",
		1234:                      "1µs",
		999 * time.Microsecond:    "999µs",
		1234 * time.Microsecond:   "1.23ms",
		148_200_000:               "148ms",
		1500 * time.Millisecond:   "1.5s",
		-1523 * time.Millisecond:  "-1.52s",
		80_540 * time.Millisecond: "1m20.5s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%d ns: %s, want %s", d, got, want)
		}
	}
}
