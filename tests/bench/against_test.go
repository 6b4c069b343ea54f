package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The ratios are those of rounds, not of medians over all rounds: a machine that slows down halfway changes nothing.
func TestRatiosAreOfRounds(t *testing.T) {
	this := []figures{{"rate": 200, "p50_us": 4}, {"rate": 20, "p50_us": 40}, {"rate": 0}}
	other := []figures{{"rate": 100, "p50_us": 8}, {"rate": 10, "p50_us": 80}, {"rate": 100, "p50_us": 8}}
	if got, want := ratios(this, other), (figures{"rate": 2, "p50_us": 0.5}); !maps.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
}

// The other build is this one, too, behind a script that leaves a trace.
func TestAgainst(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	trace, other := filepath.Join(t.TempDir(), "trace"), filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, fmt.Appendf(nil, "#!/bin/sh\necho >>'%s'\nexec '%s' \"$@\"\n", trace, self), 0o700); err != nil {
		t.Fatal(err)
	}
	r, tables, _ := medians(t, "-quick", "-for", "50ms", "-cells", "free", "-only", "holdfast-goredis,bare-goredis", "-against", other)
	if !strings.Contains(tables, "| this build over the other | ") {
		t.Errorf("the builds are not compared in %s", tables)
	}
	for name, want := range map[string]bool{"holdfast-goredis-other": true, "bare-goredis-other": false} {
		if _, is := r["free/1"][name]; is != want {
			t.Errorf("%s has a turn: %t", name, is)
		}
	}
	ran, err := os.ReadFile(trace)
	if turns := bytes.Count(ran, []byte("\n")); err != nil || turns != len(levels) {
		t.Errorf("the other build had %d turns, want %d: %v", turns, len(levels), err)
	}
}
