//go:build unix

// Package examples tests the example programs in its subdirectories.
package examples

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// All programs print the same scene.
//
// Fault: A holder is paused past its lease, and then writes to Redis, SQLite or a web server. The write is refused.
func TestPausedHoldersAreRefused(t *testing.T) {
	want, err := os.ReadFile("testdata/scene.txt")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "./...").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, program := range []string{"fenced-http"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel() // each waits for a lease to end
			var errs bytes.Buffer
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, program))
			cmd.Stderr = &errs
			got, err := cmd.Output()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v\n%s\nprinted\n%s\nwant\n%s", err, errs.Bytes(), got, want)
			}
		})
	}
}
