package kind

import (
	"testing"
	"time"
)

// How long a node is waited for depends on the TTL, within bounds, or is NodeTimeout if that is set.
func TestNodeTimeoutIsByTheTTL(t *testing.T) {
	for _, c := range []struct{ ttl, given, want time.Duration }{
		{100 * time.Millisecond, 0, 5 * time.Millisecond},
		{time.Second, 0, 5 * time.Millisecond},
		{4 * time.Second, 0, 20 * time.Millisecond},
		{10 * time.Second, 0, 50 * time.Millisecond},
		{time.Hour, 0, 50 * time.Millisecond},
		{time.Hour, time.Second, time.Second},
		{10 * time.Second, time.Millisecond, time.Millisecond},
	} {
		if got := (&Settings{Terms: &Terms{TTL: c.ttl, NodeTimeout: c.given}}).NodeWait(); got != c.want {
			t.Errorf("with a TTL of %s, and NodeTimeout %s, a node is waited for for %s; want %s", c.ttl, c.given, got, c.want)
		}
	}
}
