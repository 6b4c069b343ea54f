package engine

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
)

// Locks with equal options share their settings; others do not.
func TestLocksShareTheirSettings(t *testing.T) {
	c, err := New(&fake{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Mutex("a", kind.TTL(time.Second)), c.Mutex("b", kind.TTL(time.Second))
	if a.Set != b.Set {
		t.Error("two locks with equal options do not share settings")
	}
	for what, other := range map[string]*Target{
		"another TTL":  c.Mutex("a", kind.TTL(2*time.Second)),
		"another kind": c.RWMutex("a", kind.TTL(time.Second)).Reader().(*Target),
		"notes":        c.Mutex("a", kind.TTL(time.Second), kind.Meta("k", "v")),
		"an error":     c.Mutex("", kind.TTL(time.Second)),
	} {
		if other.Set.Interchangeable(a.Set) {
			t.Errorf("%s: the settings are the same", what)
		}
	}
	if err := c.Mutex("a", kind.TTL(time.Second)).Set.Err; err != nil {
		t.Errorf("a lock has the error of another one: %v", err)
	}
	for i := range 100 {
		c.Mutex("a", kind.TTL(time.Second+time.Duration(i)*time.Millisecond))
	}
	if a.Set.TTL != time.Second {
		t.Errorf("the TTL became %s", a.Set.TTL)
	}
}
