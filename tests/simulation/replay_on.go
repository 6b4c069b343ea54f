//go:build replay

package simulation

import _ "unsafe" // for go:linkname

// Replayable reports whether worlds repeat exactly. Go's runtime is changed for that: tests/internal/overlay/replay.go.
const Replayable = true

// seedBubble makes the runtime draw what it draws in the caller's bubble from a seed.
//
//go:linkname seedBubble runtime.seedBubble
func seedBubble(seed uint64)
