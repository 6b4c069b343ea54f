package job

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// A program in the working directory runs only if its name says where it is, as ./mine does, and not because PATH has an empty element.
func TestProgramsOfTheWorkingDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: programs have other names on Windows")
	}
	here, bin := t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(here, "both"), filepath.Join(here, "mine"), filepath.Join(bin, "both")} {
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(here)
	for _, path := range []string{":" + bin, bin + ":", ".:" + bin, "sub/..:" + bin} {
		t.Setenv("PATH", path)
		for name, want := range map[string]string{"both": filepath.Join(bin, "both"), "mine": "", "./mine": "./mine"} {
			c := &Job{Spec: keeper.Spec{Args: []string{name}}}
			err := c.find()
			var exit *exitcode.Error
			if c.Path != want || (err != nil) != (want == "") || err != nil && (!errors.As(err, &exit) || exit.Code != exitcode.NotFound || !strings.Contains(err.Error(), "use ./mine")) {
				t.Errorf("PATH=%s, %s: %q, %v; want %q", path, name, c.Path, err, want)
			}
		}
	}
}

func TestAnotherTermFollows(t *testing.T) {
	for _, c := range []struct {
		again   bool
		outcome Outcome
		code    int
		want    bool
	}{
		{false, Lost, 79, true},
		{false, Ran, 0, false},
		{true, Ran, 0, true},
		{true, Ran, 3, true},
		{true, Ran, 143, true},
		{true, Ran, 130, false}, // ^C
		{true, Ran, 131, false},
		{true, Ran, 126, false},
		{true, Ran, 127, false},
		{true, Overtime, 124, true},
		{true, Failed, 70, false},
	} {
		if got := (Terms{Again: c.again}).continues(c.outcome, c.code); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

func TestHoldersAreDescribed(t *testing.T) {
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	zone := since.Format("MST")
	a := holdfast.Holder{Identity: "alice", PID: 7, Host: "web 1", Since: since.Add(time.Minute), Mode: holdfast.ModeReader, Meta: map[string]string{"job": "b", "a": "x y"}}
	b := holdfast.Holder{Identity: "bob", Since: since, Mode: holdfast.ModeWriter}
	for _, c := range []struct {
		holders []holdfast.Holder
		want    string
	}{
		{nil, "a holder that is handing it over"},
		{[]holdfast.Holder{a}, `alice (shared, pid 7 on "web 1", since 2026-03-01 12:01:00 ` + zone + `, a="x y", job=b)`},
		{[]holdfast.Holder{a, b}, "bob (exclusive, since 2026-03-01 12:00:00 " + zone + ") and 1 other"},
		{[]holdfast.Holder{a, {Identity: "carol", Since: since}, a}, "carol (since 2026-03-01 12:00:00 " + zone + ") and 2 others"},
		{[]holdfast.Holder{{}}, "somebody"},
		{[]holdfast.Holder{{Name: "k\n", Foreign: true}}, "another program"},
		{[]holdfast.Holder{{Name: "k", Foreign: true, TTL: -1}}, "another program, without an expiry"},
	} {
		if got := describe(c.holders); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
