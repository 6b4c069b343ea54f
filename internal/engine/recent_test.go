package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
)

// However many locks have been contended, those that are contended now are known.
func TestContendedLocksAreRememberedForAsLongAsTheyAreAskedFor(t *testing.T) {
	c := recent[string]{most: maxContended}
	c.add("often")
	for i := range 3 * maxContended {
		key := fmt.Sprint("lock", i)
		c.add(key)
		if !c.has(key) || i%1000 == 0 && !c.has("often") {
			t.Fatalf("after %d contended locks, one of them is not known", i)
		}
	}
	if n := len(c.newer) + len(c.older); n > maxContended {
		t.Errorf("%d are remembered, want %d at most", n, maxContended)
	}
	c.remove("often")
	if c.has("often") {
		t.Error("a lock that is no longer contended is remembered")
	}
}

// A node that grants a vote shows that the lock is contended there no more: its release may go together with others.
func TestAVoteThatIsGrantedIsContendedNoMore(t *testing.T) {
	c := open(t, &fake{}, nil)
	n := c.NodeLock("a", "me", nil)
	c.contended.add(n.Keys.Lock)
	must(t, n.Attempt(NewRound()).Take(clock.Now(), codec.Reply{Head: codec.Head{Now: time.Now().UnixMicro()}, Grant: codec.Grant{TTL: time.Minute, Fence: 1}}))
	if c.contended.has(n.Keys.Lock) {
		t.Error("it is contended still")
	}
}
