package engine

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
)

// If a server says that it grants nothing for longer than clocks can count, the client waits for as
// long as they can, and does not ask again at once.
func TestQuarantinesCannotOverflow(t *testing.T) {
	for _, ms := range []string{"9223372036854775807", "9223372036854775", "-5"} {
		r, err := (&codec.Acquire{Mode: codec.Try}).Parse("quarantined 1 " + ms)
		if left := r.Refusal.Quarantine; err != nil || left < -time.Millisecond || ms[0] != '-' && left < 1 {
			t.Errorf("%s ms are read as %s, %v", ms, left, err)
		}
	}
}
