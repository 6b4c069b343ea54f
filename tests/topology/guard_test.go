package topology

import "sync"

// guard is what the locks protect: one value for each name. It refuses writes with a lower fence than it has
// seen.
type guard struct {
	mu    sync.Mutex
	marks map[string]uint64
	late  int // writes that were refused
}

func (g *guard) write(name string, fence uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.marks == nil {
		g.marks = map[string]uint64{}
	}
	if fence < g.marks[name] {
		g.late++
		return false
	}
	g.marks[name] = fence
	return true
}

func (g *guard) refused() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.late
}
