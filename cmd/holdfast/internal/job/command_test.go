package job

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

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
