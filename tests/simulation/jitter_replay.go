//go:build replay

package simulation

import (
	"math/rand/v2"
	"sync"
	_ "unsafe" // for go:linkname
)

// globalRand is what the functions of math/rand/v2 draw from, the library's jitter
// among them. The linker gives it away with -checklinkname=0 only.
//
//go:linkname globalRand math/rand/v2.globalRand
var globalRand *rand.Rand

// Replayable reports whether this build draws the library's jitter from the seed, too.
const Replayable = true

// seedJitter makes the library's jitter that of a seed, until undo.
func seedJitter(seed uint64) (undo func()) {
	old := globalRand
	globalRand = rand.New(&source{source: rand.NewPCG(seed, 1)})
	return func() { globalRand = old }
}

// source is a source for many goroutines.
type source struct {
	mu     sync.Mutex
	source *rand.PCG
}

func (s *source) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source.Uint64()
}
