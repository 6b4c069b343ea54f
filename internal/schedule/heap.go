package schedule

import (
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/compact"
)

// timed is an entry, and its time: to look into entries for that would take longer than all else.
type timed struct {
	at    clock.Reading
	entry *Entry
}

// entries is a heap, earliest first: the children of i are degree*i+1 to degree*(i+1). With many of them
// a memory access that misses the caches costs more than a comparison, so it is a flat one (LaMarca and
// Ladner, "The Influence of Caches on the Performance of Heaps", JEA 1, 1996).
type entries []timed

const degree = 4

// set puts e in, or moves it.
func (h *entries) set(e *Entry, at clock.Reading) {
	if e.index == 0 {
		*h = append(*h, timed{at, e})
		e.index = len(*h)
	}
	h.settle(e.index-1, timed{at, e})
}

// remove takes e out if it is in.
func (h *entries) remove(e *Entry) {
	if e.index == 0 {
		return
	}
	gap, end := e.index-1, len(*h)-1
	last := (*h)[end]
	(*h)[end] = timed{}
	*h = compact.Slice((*h)[:end])
	e.index = 0
	if gap < end {
		h.settle(gap, last)
	}
}

// settle puts t where it belongs, from i upwards or downwards, in place of what stands at i.
func (h entries) settle(i int, t timed) {
	for i > 0 {
		parent := (i - 1) / degree
		if h[parent].at <= t.at {
			break
		}
		h.put(i, h[parent])
		i = parent
	}
	for {
		least, end := t, min(degree*i+degree, len(h)-1)
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
	h.put(i, t)
}

func (h entries) put(i int, t timed) {
	h[i] = t
	t.entry.index = i + 1
}
