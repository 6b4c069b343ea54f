package engine

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
)

// Locks with equal options share their settings; others do not.
func TestLocksShareTheirSettings(t *testing.T) {
	c := open(t, &fake{}, nil)
	a, b := c.Mutex("a", kind.TTL(time.Second)), c.Mutex("b", kind.TTL(time.Second))
	equal(t, "the settings of two locks with equal options", a.Set, b.Set)
	for what, other := range map[string]*Target{
		"another TTL":  c.Mutex("a", kind.TTL(2*time.Second)),
		"another kind": c.Mutex("a", kind.TTL(time.Second), kind.Of(&kind.Reader, kind.Everything, 1)),
		"notes":        c.Mutex("a", kind.TTL(time.Second), kind.Meta("k", "v")),
		"an error":     c.Mutex("", kind.TTL(time.Second)),
	} {
		if other.Set.Interchangeable(a.Set) {
			t.Errorf("%s: the settings are the same", what)
		}
	}
	wantErr(t, "a lock has the error of another one", c.Mutex("a", kind.TTL(time.Second)).Set.Err, nil)
	for i := range 100 {
		c.Mutex("a", kind.TTL(time.Second+time.Duration(i)*time.Millisecond))
	}
	equal(t, "the TTL", a.Set.TTL, time.Second)
}
