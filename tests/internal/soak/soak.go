// Package soak says how long a test runs that could run forever, and which tests run at night only.
package soak

import (
	"os"
	"testing"
	"time"
)

// slice is how much of every storm the ordinary tests run.
const slice = 5 * time.Second

// Duration returns how long one storm lasts: 5 s, or what HOLDFAST_SOAK says, such as "30m"; "make soak" sets
// it.
func Duration(tb testing.TB) time.Duration {
	tb.Helper()
	text := os.Getenv("HOLDFAST_SOAK")
	if text == "" {
		return slice
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		tb.Fatalf("HOLDFAST_SOAK=%q is not a duration such as 30m", text)
	}
	return d
}

// Long reports whether this is a soak. A soak may include checks that fail now and then on a noisy machine.
func Long() bool { return os.Getenv("HOLDFAST_SOAK") != "" }

// Nightly skips a test with -short: it is part of make nightly.
func Nightly(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("SKIPPED: part of make nightly")
	}
}
