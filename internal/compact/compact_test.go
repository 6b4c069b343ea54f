package compact

import (
	"runtime"
	"testing"
)

const many = 1 << 17

// heap is how much memory is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// shrinks fails if what is kept of the memory that fill takes is more than a twentieth when most is gone.
func shrinks(t *testing.T, fill, empty func()) {
	t.Helper()
	before := heap()
	fill()
	full := heap() - before
	empty()
	if left := heap() - before; left > full/20 {
		t.Errorf("%d bytes of %d are kept", left, full)
	}
}

func TestMapGivesMemoryBack(t *testing.T) {
	var m Map[int, *int]
	shrinks(t, func() {
		for i := range many {
			m.Set(i, &i)
		}
		if m.Len() != many {
			t.Fatalf("it has %d of %d", m.Len(), many)
		}
	}, func() {
		for i := 100; i < many; i++ {
			m.Delete(i)
		}
	})
	if m.Len() != 100 || m.Get(100) != nil {
		t.Errorf("it has %d, want 100", m.Len())
	}
	for i := range 100 {
		if p := m.Get(i); p == nil || *p != i {
			t.Errorf("%d has %v", i, p)
		}
	}
}

func TestSliceGivesMemoryBack(t *testing.T) {
	var s []int
	shrinks(t, func() {
		for i := range many {
			s = append(s, i)
		}
	}, func() {
		for len(s) > 100 {
			s = Slice(s[:len(s)-1])
		}
	})
	for i, x := range s {
		if x != i {
			t.Errorf("at %d stands %d", i, x)
		}
	}
}

// Where the number goes up and down, moving is not what takes the time.
func TestNothingIsMovedBackAndForth(t *testing.T) {
	var m Map[int, int]
	for i := range small + slack {
		m.Set(i, i)
	}
	for i := small / slack; i < small+slack; i++ {
		m.Delete(i)
	}
	if allocs := testing.AllocsPerRun(1000, func() {
		m.Set(small, 0)
		m.Delete(small)
	}); allocs > 0.1 {
		t.Errorf("%g allocations to add one, and take it out", allocs)
	}
}
