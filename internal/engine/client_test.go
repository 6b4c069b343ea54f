package engine

import (
	"testing"
	"time"
)

// Locks with equal options share their settings; others do not.
func TestLocksShareTheirSettings(t *testing.T) {
	c, err := New(&fake{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Mutex("a", TTL(time.Second)), c.Mutex("b", TTL(time.Second))
	if a.set != b.set {
		t.Error("two locks with equal options do not share settings")
	}
	for what, other := range map[string]*Target{
		"another TTL":  c.Mutex("a", TTL(2*time.Second)),
		"another kind": c.RWMutex("a", TTL(time.Second)).Reader().(*Target),
		"notes":        c.Mutex("a", TTL(time.Second), Meta("k", "v")),
		"an error":     c.Mutex("", TTL(time.Second)),
	} {
		if other.set.interchangeable(a.set) {
			t.Errorf("%s: the settings are the same", what)
		}
	}
	if err := c.Mutex("a", TTL(time.Second)).set.err; err != nil {
		t.Errorf("a lock has the error of another one: %v", err)
	}
	for i := range 100 {
		c.Mutex("a", TTL(time.Second+time.Duration(i)*time.Millisecond))
	}
	if a.set.ttl != time.Second {
		t.Errorf("the TTL became %s", a.set.ttl)
	}
}
