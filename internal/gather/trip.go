package gather

import "time"

// trip estimates the round trip to the server by the shortest recent sending.
type trip struct {
	shortest time.Duration // 0: not known

	window time.Duration // the shortest of those that can show a longer way, since the window began
	seen   int
}

const (
	fewItems   = 4
	tripWindow = 64 // sendings
)

// observe notes a sending. A shorter one counts at once, whatever it carried. A longer round trip is believed only after
// a window of sendings with few items and hardly another sending under way: items take the server's time, and
// sendings wait for each other, so a loaded server would look far, get more sendings, and be loaded further. The
// estimate at most doubles with each window, because a server that is busy for a moment is not far away.
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
