package voting

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// unused is a driver that nothing is sent to.
type unused struct{ driver.Driver }

// The time to wait grows with the nodes' distance, and after a round without a majority. A node that hung once does not count
// as far away.
func TestNodeTimeoutIsByTheRoundTrip(t *testing.T) {
	c, err := engine.New(unused{}, &lock.Config{CommandTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	lockOf := func(opts ...kind.Option) *mutex {
		part := c.NodeLock("a", "me", opts)
		if part.Set.Err != nil {
			t.Fatal(part.Set.Err)
		}
		return &mutex{c: c, parts: []*engine.Target{part}}
	}
	l := lockOf(kind.TTL(10 * time.Second))
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
	l = lockOf(kind.TTL(time.Second))
	want("no longer than a quarter of the TTL", q.timeout(l), 250*time.Millisecond)
	l = lockOf(kind.TTL(10*time.Second), kind.NodeTimeout(3*time.Millisecond))
	want("as it is given", q.timeout(l), 3*time.Millisecond)
	want("as it is given, later", q.longer(l, 3*time.Millisecond), 3*time.Millisecond)
}
