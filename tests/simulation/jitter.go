//go:build !replay

package simulation

// Replayable reports whether this build draws the library's jitter from the seed, too.
const Replayable = false

// seedJitter leaves the library's jitter as it is.
func seedJitter(uint64) (undo func()) { return func() {} }
