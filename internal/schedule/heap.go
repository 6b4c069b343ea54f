package schedule

import (
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/compact"
)

// item is an entry of the heap with its time. The time is kept here because reading it from the entries would take
// longer than everything else.
type item struct {
	at    clock.Reading
	entry *Entry
}

// heap is a heap of entries, earliest first: the children of i are degree*i+1 to degree*(i+1). It is wide and shallow
// because with many entries a cache miss costs more than a comparison (LaMarca and Ladner, "The Influence of Caches on
// the Performance of Heaps", JEA 1, 1996).
type heap []item

const degree = 4

// set adds e, or moves it if it is in the heap.
func (h *heap) set(e *Entry, at clock.Reading) {
	if e.index == 0 {
		*h = append(*h, item{at, e})
		e.index = len(*h)
	}
	h.place(e.index-1, item{at, e})
}

// remove removes e if it is in the heap.
func (h *heap) remove(e *Entry) {
	if e.index == 0 {
		return
	}
	gap, end := e.index-1, len(*h)-1
	last := (*h)[end]
	(*h)[end] = item{}
	*h = compact.Slice((*h)[:end])
	e.index = 0
	if gap < end {
		h.place(gap, last)
	}
}

// place overwrites the item at i with x, and then moves x up or down to where it belongs.
func (h heap) place(i int, x item) {
	for i > 0 {
		parent := (i - 1) / degree
		if h[parent].at <= x.at {
			break
		}
		h.put(i, h[parent])
		i = parent
	}
	for {
		least, end := x, min(degree*i+degree, len(h)-1)
		next := i
		for child := degree*i + 1; child <= end; child++ {
			if h[child].at < least.at {
				next, least = child, h[child]
			}
		}
		if next == i {
			break
		}
		h.put(i, least)
		i = next
	}
	h.put(i, x)
}

func (h heap) put(i int, x item) {
	h[i] = x
	x.entry.index = i + 1
}
