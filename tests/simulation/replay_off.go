//go:build !replay

package simulation

// Replayable reports whether worlds repeat exactly.
const Replayable = false

func seedBubble(uint64) {}
