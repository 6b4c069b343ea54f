package gather

import "time"

// trip estimates how long the way to the server and back takes, as the shortest sending of late. Only sendings
// of few items count: many items take the server time, which is not the way's.
type trip struct {
	shortest time.Duration // 0: not known

	window time.Duration // the shortest of those seen since the window began
	seen   int
}

const (
	fewItems   = 4
	tripWindow = 64 // sendings
)

// observe notes a sending. A shorter one counts at once. A longer way is believed after a window of sendings, and up to
// twice as long each time: a server that is busy for a moment is not far away.
func (t *trip) observe(took time.Duration, items int) {
	if items > fewItems {
		return
	}
	if t.seen == 0 || took < t.window {
		t.window = took
	}
	t.seen++
	switch {
	case t.shortest == 0 || took < t.shortest:
		t.shortest = took
	case t.seen >= tripWindow:
		t.shortest = min(t.window, 2*t.shortest)
	default:
		return
	}
	t.seen = 0
}
