package engine

import (
	"testing"
	"time"
)

// A node of a quorum is waited for by the TTL, within bounds; and by NodeTimeout, if that is given.
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
		if got := (&settings{ttl: c.ttl, nodeTimeout: c.given}).wait(); got != c.want {
			t.Errorf("with a TTL of %s, and NodeTimeout %s, a node is waited for for %s; want %s", c.ttl, c.given, got, c.want)
		}
	}
}

// Nodes that are far away are waited for longer, and after a round without a majority longer still; one that
// hung once is not taken for one that is far away.
func TestNodeTimeoutIsByTheRoundTrip(t *testing.T) {
	l := &quorumLock{several: several{c: &Client{cfg: Config{CommandTimeout: 2 * time.Second}}, set: &settings{ttl: 10 * time.Second}}}
	q := &Quorum{nodes: make([]node, 3)}
	want := func(what string, got, want time.Duration) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s; want %s", what, got, want)
		}
	}
	want("at first", q.timeout(l), 50*time.Millisecond)
	for i, trip := range []time.Duration{time.Millisecond, 40 * time.Millisecond, 2 * time.Millisecond} {
		q.observe(i, trip)
	}
	want("by the slowest", q.timeout(l), 240*time.Millisecond)
	want("after a round", q.longer(l, 240*time.Millisecond), 480*time.Millisecond)
	want("after many", q.longer(l, 1900*time.Millisecond), 2*time.Second)
	q.observe(0, 10*time.Second)
	want("after one has hung", q.timeout(l), 240*time.Millisecond)
	for range 100 {
		q.observe(1, 3*time.Second)
	}
	want("no longer than a command", q.timeout(l), 2*time.Second)
	l.set = &settings{ttl: time.Second}
	want("no longer than a quarter of the TTL", q.timeout(l), 250*time.Millisecond)
	l.set = &settings{ttl: 10 * time.Second, nodeTimeout: 3 * time.Millisecond}
	want("as it is given", q.timeout(l), 3*time.Millisecond)
	want("as it is given, later", q.longer(l, 3*time.Millisecond), 3*time.Millisecond)
}
