package job

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

func TestEnvironment(t *testing.T) {
	env := []string{"A=1", "HOLDFAST_REDIS=x", "REDIS_URL=y", "HOLDFAST_FENCE=1", "HOLDFAST_PREFIX=other:", "A=2", "ODD"}
	given := []string{"HOLDFAST_NAME=n", "HOLDFAST_FENCE=7", "HOLDFAST_TTL_MS=2000", "HOLDFAST_PREFIX=p:"}
	for source, want := range map[string][]string{
		"HOLDFAST_REDIS": {"A=1", "REDIS_URL=y", "A=2", "ODD"},
		"REDIS_URL":      {"A=1", "A=2", "ODD"},
		"--redis":        {"A=1", "REDIS_URL=y", "A=2", "ODD"},
	} {
		if got := environment(env, &Run{Name: "n", Prefix: "p:", Servers: &connect.Servers{Source: source}}, 2*time.Second, map[string]uint64{}, map[string]uint64{"n": 7}); !slices.Equal(got, append(want, given...)) {
			t.Errorf("server from %s: %q", source, got)
		}
	}
	if env[1] != "HOLDFAST_REDIS=x" {
		t.Error("the environment given was changed")
	}
}

// A program in the working directory runs if its name says so, but not because PATH has an empty element.
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
			c := &Command{Args: []string{name}}
			err := c.find()
			var exit *exitcode.Error
			if c.path != want || (err != nil) != (want == "") || err != nil && (!errors.As(err, &exit) || exit.Code != exitcode.NotFound || !strings.Contains(err.Error(), "use ./mine")) {
				t.Errorf("PATH=%s, %s: %q, %v; want %q", path, name, c.path, err, want)
			}
		}
	}
}
