package campaign

import (
	"math/rand/v2"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// ReadWrite is the read-write lock: a reader holds a share of 1, a writer the whole lock.
type ReadWrite struct{ alone }

func (ReadWrite) Name() string { return "rwmutex" }

// everyone exceeds the number of goroutines of a history.
const everyone = 1000

// Draw returns ways to read and a way to write.
func (ReadWrite) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	var wants []worker.Want
	for _, share := range []worker.Share{worker.Reading, worker.Reading, worker.Writing} {
		w := drawWant(random, p, n)
		w.Share = share
		w.Again = random.IntN(3) == 0
		wants = append(wants, w)
	}
	return wants
}

func (ReadWrite) Overlaps(events []history.Event) []history.Violation {
	return history.Crowding(events, everyone)
}

func (ReadWrite) ShareFence(a, b history.Event) bool { return a.Share != 0 && b.Share != 0 }

func (ReadWrite) Queue(key string) string { return key + ":rw" }

func (ReadWrite) Model() porcupine.Model {
	return sharesModel(everyone, func(s sharesState, op Taken) bool {
		// Readers share a fence, also with readers that were never reported, but never with a writer.
		return op.Fence > s.fence || op.Share != 0 && op.Fence == s.fence && op.Fence > s.whole
	})
}

// Permits is the semaphore.
type Permits struct{ alone }

func (Permits) Name() string { return "semaphore" }

const permits = 3

// Draw returns ways to take one permit, several and all.
func (Permits) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	return drawWants(random, p, n, 3, func(w *worker.Want) {
		w.Share, w.Permits, w.Take = worker.Permits, permits, 1+random.IntN(permits)
	})
}

func (Permits) Overlaps(events []history.Event) []history.Violation {
	return history.Crowding(events, permits)
}

func (Permits) FencesTellTurns() bool { return false }

func (Permits) Queue(key string) string { return key + ":sem" }

func (Permits) Model() porcupine.Model {
	return sharesModel(permits, func(sharesState, Taken) bool { return true })
}

// sharesState is how much of a lock is held, and the highest fence that was granted: in all, and with the whole
// lock.
type sharesState struct {
	used         int
	fence, whole uint64
}

// sharesModel is a lock of which up to whole can be held at once. rises reports whether a grant may have its
// fence.
func sharesModel(whole int, rises func(sharesState, Taken) bool) porcupine.Model {
	share := func(n int) int {
		if n == 0 {
			return whole
		}
		return n
	}
	return porcupine.Model{
		Init: func() any { return sharesState{} },
		Step: func(state, input, _ any) (bool, any) {
			s := state.(sharesState)
			switch op := input.(type) {
			case Taken:
				n := share(op.Share)
				after := sharesState{s.used + n, max(op.Fence, s.fence), s.whole}
				if op.Share == 0 {
					after.whole = op.Fence
				}
				return after.used <= whole && rises(s, op), after
			case Given:
				n := share(op.Share)
				return s.used >= n, sharesState{s.used - n, s.fence, s.whole}
			}
			return false, s
		},
	}
}
