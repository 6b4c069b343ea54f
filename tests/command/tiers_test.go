package command

import (
	"testing"
	"time"
)

// hang is when a test gives up waiting for what must happen. Nothing that is right takes as
// long, and what is wrong takes longer.
const hang = time.Minute

// long marks a test that takes long, or loads the machine.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: part of make test-all")
	}
}
