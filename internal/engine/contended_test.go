package engine

import (
	"fmt"
	"testing"
)

// However many locks have been contended, those that are contended now are known.
func TestContendedLocksAreRememberedForAsLongAsTheyAreAskedFor(t *testing.T) {
	var c contended
	c.add("often")
	for i := range 3 * maxContended {
		key := fmt.Sprint("lock", i)
		c.add(key)
		if !c.has(key) || i%1000 == 0 && !c.has("often") {
			t.Fatalf("after %d contended locks, one of them is not known", i)
		}
	}
	if n := len(c.recent) + len(c.older); n > maxContended {
		t.Errorf("%d are remembered, want %d at most", n, maxContended)
	}
	c.remove("often")
	if c.has("often") {
		t.Error("a lock that is no longer contended is remembered")
	}
}
