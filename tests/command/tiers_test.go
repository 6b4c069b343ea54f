package command

import (
	"testing"
	"time"
)

// hang is how long a test waits before it fails. Nothing that works takes so long, and failures take longer.
const hang = time.Minute

// long marks a test that takes long, or loads the machine.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: part of make nightly")
	}
}
