package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// Whatever is put in, moved and taken out: the first is the earliest, and all know their places.
func TestHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var h entries
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
				t.Fatalf("it has %d entries of %d", len(h), len(in))
			}
			for i, x := range h {
				if at, is := in[x.entry]; !is || x.at != at || x.entry.index != i+1 {
					t.Fatalf("at %d stands an entry of %d, which believes to be at %d, and is to be called at %d", i, x.at, x.entry.index-1, at)
				}
				if x.at < h[0].at {
					t.Fatalf("an entry of %d stands behind the first, of %d", x.at, h[0].at)
				}
			}
		}
	}
}
