package quorum

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: Somebody sets the fence counters of a quorum's nodes to something other than a counter. The error names the key and what to do.
func TestCountersThatAreNone(t *testing.T) {
	t.Parallel()
	s := lasting(t, server.One(t))
	for _, node := range s.nodes {
		if _, err := node.Do("SET", "holdfast:fences", "notanumber"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.lock().TryAcquire(t.Context())
	if !errors.Is(err, holdfast.ErrMismatch) || strings.Count(err.Error(), `its key is "holdfast:fences" (if no other program uses that key, delete it`) < 2 || strings.Contains(err.Error(), "another name") {
		t.Errorf("the error is: %v", err)
	}
}
