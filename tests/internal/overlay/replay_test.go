package overlay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the changes are for is tested by TestReplay of the simulation, and that they fit this version of Go.

func TestReplayRefusesARuntimeThatItDoesNotKnow(t *testing.T) {
	src := t.TempDir()
	if err := os.Mkdir(filepath.Join(src, "runtime"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, e := range repeating {
		if err := os.WriteFile(filepath.Join(src, e.file), []byte("package runtime\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := writeReplay(t.TempDir(), src); err == nil || !strings.Contains(err.Error(), "has to learn this version of Go") {
		t.Errorf("the error is %v", err)
	}
}
