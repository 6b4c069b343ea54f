package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestEnviron(t *testing.T) {
	r := &runner{runOptions: &runOptions{jobOptions: jobOptions{name: "n", ttl: 2 * time.Second}}}
	env := []string{"A=1", "HOLDFAST_REDIS=x", "REDIS_URL=y", "HOLDFAST_FENCE=1", "A=2", "ODD"}
	given := []string{"HOLDFAST_NAME=n", "HOLDFAST_FENCE=7", "HOLDFAST_TTL_MS=2000"}
	for source, want := range map[string][]string{
		"HOLDFAST_REDIS": {"A=1", "REDIS_URL=y", "A=2", "ODD"},
		"REDIS_URL":      {"A=1", "A=2", "ODD"},
		"--redis":        {"A=1", "REDIS_URL=y", "A=2", "ODD"},
	} {
		r.source = source
		if got := r.environ(env, map[string]uint64{"n": 7}); !slices.Equal(got, append(want, given...)) {
			t.Errorf("server from %s: %q", source, got)
		}
	}
	if env[1] != "HOLDFAST_REDIS=x" {
		t.Error("the environment given was changed")
	}
}

func TestParseRun(t *testing.T) {
	o, err := parseRun([]string{"-nvE", "9", "--meta", "a=1", "job", "--ttl=30", "--meta=b=x=y", "-c", "--json", "--", "echo", "-n", "--", "x"})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(o.name, o.argv, o.try, o.verbose, o.conflictCode, o.meta, o.ttl, o.shell, o.json)
	if want := "job [echo -n -- x] true true 9 [a=1 b=x=y] 30s true -\n"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1m30s": 90 * time.Second, "15": 15 * time.Second, "1.5": 1500 * time.Millisecond, "0": 0, "250ms": 250 * time.Millisecond,
	} {
		var s span
		if err := s.Set(text); err != nil || time.Duration(s) != want {
			t.Errorf("%q is %s, %v; want %s", text, time.Duration(s), err, want)
		}
	}
	for _, text := range []string{"", "-1", "-5s", "soon", "5 s", "1e300", "NaN", "Inf"} {
		var s span
		if err := s.Set(text); err == nil {
			t.Errorf("%q is accepted, as %s", text, time.Duration(s))
		}
	}
}

func TestFailure(t *testing.T) {
	for err, code := range map[error]int{
		holdfast.ErrUnavailable: 69,
		holdfast.ErrReplicas:    69,
		holdfast.ErrQuarantine:  69,
		holdfast.ErrDenied:      77,
		holdfast.ErrMismatch:    78,
		holdfast.ErrUnsupported: 78,
		holdfast.ErrInvalid:     64,
	} {
		wrapped := &holdfast.ServerError{Op: "acquire", Name: "n", Server: "s", Err: err}
		if got := failure(wrapped); got.code != code || !errors.Is(got, err) {
			t.Errorf("%v: exit code %d, want %d", err, got.code, code)
		}
	}
}

func TestExitCodesOfErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"help"}, 0},
		{[]string{}, 64},
		{[]string{"nothing"}, 64},
	} {
		if got := Main(context.Background(), c.args, nil, io.Discard, io.Discard); got != c.want {
			t.Errorf("%q: exit code %d, want %d", c.args, got, c.want)
		}
	}
}

// A program of the working directory is run if it is named as one, and not because PATH has an empty element.
func TestProgramsOfTheWorkingDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: programs are called otherwise there")
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
			o := &jobOptions{argv: []string{name}}
			got, err := o.executable()
			var exit *exitError
			if got != want || (err != nil) != (want == "") || err != nil && (!errors.As(err, &exit) || exit.code != exitNotFound || !strings.Contains(err.Error(), "say ./mine")) {
				t.Errorf("PATH=%s, %s: %q, %v; want %q", path, name, got, err, want)
			}
		}
	}
}
