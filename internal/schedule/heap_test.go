package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// After every change the first item is the earliest, and each entry knows its index.
func TestHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var h heap
		all := make([]*Entry, 1+rng.IntN(100))
		in := map[*Entry]clock.Reading{}
		for i := range all {
			all[i] = new(Entry)
		}
		for range 300 {
			e := all[rng.IntN(len(all))]
			switch rng.IntN(4) {
			case 0:
				h.remove(e)
				delete(in, e)
			case 1:
				if len(h) > 0 {
					first := h[0].entry
					h.remove(first)
					delete(in, first)
				}
			default:
				at := clock.Reading(rng.IntN(50))
				h.set(e, at)
				in[e] = at
			}
			if len(h) != len(in) {
				t.Fatalf("the heap has %d entries, want %d", len(h), len(in))
			}
			for i, x := range h {
				if at, ok := in[x.entry]; !ok || x.at != at || x.entry.index != i+1 {
					t.Fatalf("item %d has the time %d and the index %d, want %d and %d", i, x.at, x.entry.index, at, i+1)
				}
				if x.at < h[0].at {
					t.Fatalf("item %d has the time %d, earlier than the first one's %d", i, x.at, h[0].at)
				}
			}
		}
	}
}
