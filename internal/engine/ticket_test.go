package engine

import (
	"strconv"
	"testing"
)

// However many tokens are detached: those that are forgotten still count by the time at which they were detached.
func TestDetachmentsAreBounded(t *testing.T) {
	d := detachments{tokens: recent[string]{most: maxDetached}}
	for i := range 5 * maxDetached {
		d.add(strconv.Itoa(i), int64(1_000_000+i))
		if n := len(d.tokens.newer) + len(d.tokens.older); n > maxDetached {
			t.Fatalf("%d tokens are remembered", n)
		}
	}
	for i := range 5 * maxDetached {
		if !d.mayHave(strconv.Itoa(i), int64(1_000_000+i)) {
			t.Fatalf("token %d is forgotten", i)
		}
	}
	if d.mayHave("another", 1_000_000+5*maxDetached) {
		t.Error("a token that was never detached is taken for one that was")
	}
	if last := strconv.Itoa(5*maxDetached - 1); !d.mayHave(last, 1<<60) {
		t.Error("of a late token the time matters")
	}
}
