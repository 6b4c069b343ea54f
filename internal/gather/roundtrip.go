package gather

import "time"

// roundTrip estimates the round trip to the server by the fastest recent batch.
type roundTrip struct {
	estimate time.Duration // 0 if not known

	windowMin time.Duration // the fastest batch of the window that can show a longer round trip
	windowLen int
}

const (
	fewItems   = 4
	windowSize = 64 // batches
)

// observe records a batch. A shorter round trip counts at once, whatever the batch carried. A longer one is believed
// only after a window of batches of few items with hardly another in flight: items take server time, and batches wait
// for each other, so a loaded server would look far, get more batches, and be loaded further. With each window the
// estimate at most doubles, because a server that is busy for a moment is not far away.
func (r *roundTrip) observe(took time.Duration, items int, alone bool) {
	if r.estimate != 0 && took < r.estimate {
		r.estimate, r.windowLen = took, 0
		return
	}
	if items > fewItems || !alone {
		return
	}
	if r.windowLen == 0 || took < r.windowMin {
		r.windowMin = took
	}
	r.windowLen++
	if r.estimate == 0 {
		r.estimate, r.windowLen = took, 0
	} else if r.windowLen >= windowSize {
		r.estimate, r.windowLen = min(r.windowMin, 2*r.estimate), 0
	}
}
