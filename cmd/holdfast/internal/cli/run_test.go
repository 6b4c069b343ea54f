package cli

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1m30s": 90 * time.Second, "15": 15 * time.Second, "1.5": 1500 * time.Millisecond, "0": 0, "250ms": 250 * time.Millisecond,
	} {
		var s seconds
		if err := s.Set(text); err != nil || time.Duration(s) != want {
			t.Errorf("%q is %s, %v; want %s", text, time.Duration(s), err, want)
		}
	}
	for _, text := range []string{"", "-1", "-5s", "soon", "5 s", "1e300", "NaN", "Inf"} {
		var s seconds
		if err := s.Set(text); err == nil {
			t.Errorf("%q is accepted, as %s", text, time.Duration(s))
		}
	}
}

// The text in the place of a number may be a misplaced password.
func TestErrorsDoNotQuoteValues(t *testing.T) {
	for _, line := range []string{"run --weight=secret", "run --quiet=secret", "run --wait secret", "ls -n secret", "demo --seed secret"} {
		var stderr strings.Builder
		if code := Main(t.Context(), strings.Fields(line), nil, io.Discard, &stderr); code != 64 || strings.Contains(stderr.String(), "secret") || !strings.Contains(stderr.String(), ": want ") {
			t.Errorf("%s: exit code %d, %s", line, code, &stderr)
		}
	}
}
