package gather

import "time"

// trip estimates how long the way to the server and back takes, as the shortest sending of late.
type trip struct {
	shortest time.Duration // 0: not known

	window time.Duration // the shortest of those that can show a longer way, since the window began
	seen   int
}

const (
	fewItems   = 4
	tripWindow = 64 // sendings
)

// observe notes a sending. A shorter one counts at once, whatever it had to do. A longer way is believed only after a
// window of sendings of few items, with hardly another under way: items take the server time, and sendings
// wait for each other, which is not the way's doing, and more of them would only make it longer. And it is
// believed up to twice as long each time: a server that is busy for a moment is not far away.
func (t *trip) observe(took time.Duration, items int, alone bool) {
	if t.shortest != 0 && took < t.shortest {
		t.shortest, t.seen = took, 0
		return
	}
	if items > fewItems || !alone {
		return
	}
	if t.seen == 0 || took < t.window {
		t.window = took
	}
	t.seen++
	if t.shortest == 0 {
		t.shortest, t.seen = took, 0
	} else if t.seen >= tripWindow {
		t.shortest, t.seen = min(t.window, 2*t.shortest), 0
	}
}
