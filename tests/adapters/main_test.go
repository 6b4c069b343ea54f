package adapters

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

func TestMain(m *testing.M) {
	backend.AtOnce(20) // the tests mostly wait
	os.Exit(m.Run())
}

// long skips a test that starts several servers, or waits for long, in "make test".
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: part of make nightly")
	}
}
