package compact

import (
	"runtime"
	"testing"
)

const many = 1 << 17

// heap returns the bytes in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// mustShrink fails the test if more than a twentieth of the memory that fill allocates remains after empty.
func mustShrink(t *testing.T, fill, empty func()) {
	t.Helper()
	before := heap()
	fill()
	full := heap() - before
	empty()
	if left := heap() - before; left > full/20 {
		t.Errorf("%d of %d bytes are still in use", left, full)
	}
}

func TestMapGivesMemoryBack(t *testing.T) {
	var m Map[int, *int]
	mustShrink(t, func() {
		for i := range many {
			m.Set(i, &i)
		}
		if m.Len() != many {
			t.Fatalf("Len = %d, want %d", m.Len(), many)
		}
	}, func() {
		for i := 100; i < many; i++ {
			m.Delete(i)
		}
	})
	if m.Len() != 100 || m.Get(100) != nil {
		t.Errorf("Len = %d, Get(100) = %v; want 100, nil", m.Len(), m.Get(100))
	}
	for i := range 100 {
		if p := m.Get(i); p == nil || *p != i {
			t.Errorf("Get(%d) = %v", i, p)
		}
	}
}

func TestSliceGivesMemoryBack(t *testing.T) {
	var s []int
	mustShrink(t, func() {
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
			t.Errorf("s[%d] = %d", i, x)
		}
	}
}

func TestALengthThatGoesUpAndDownCausesNoCopying(t *testing.T) {
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
		t.Errorf("%g allocations for a Set and a Delete, want 0", allocs)
	}
}
