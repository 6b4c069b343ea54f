package soak

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"": slice, "30m": 30 * time.Minute, "1h30s": time.Hour + 30*time.Second} {
		t.Setenv("HOLDFAST_SOAK", text)
		if got := Duration(t); got != want {
			t.Errorf("HOLDFAST_SOAK=%q: got %v, want %v", text, got, want)
		}
	}
}

type refusal struct{ testing.TB }

func (refusal) Helper() {}

func (refusal) Fatalf(string, ...any) { panic("refused") }

func TestDurationRefusesNonsense(t *testing.T) {
	for _, text := range []string{"30", "-1s", "0", "long"} {
		t.Setenv("HOLDFAST_SOAK", text)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("HOLDFAST_SOAK=%q was accepted", text)
				}
			}()
			Duration(refusal{t})
		}()
	}
}
