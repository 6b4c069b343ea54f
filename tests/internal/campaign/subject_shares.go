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
func (ReadWrite) Queue(key string) string            { return key + ":rw" }

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

func (Permits) FencesTellTurns() bool   { return false }
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

// Owned is the lock of owners that span processes. An event's share is the number of its owner.
type Owned struct{ alone }

func (Owned) Name() string { return "owned" }

// owners is the number of owners that want the lock.
const owners = 3

// Draw returns ways for one owner or two.
func (Owned) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	return drawWants(random, p, n, 2, func(w *worker.Want) {
		w.Share, w.Owner = worker.Owned, 1+random.IntN(owners)
		w.Again = random.IntN(3) == 0
	})
}

func (Owned) Overlaps(events []history.Event) []history.Violation { return history.Strangers(events) }
func (Owned) ShareFence(a, b history.Event) bool                  { return a.Share == b.Share }
func (Owned) Queue(key string) string                             { return key + ":own" }

// ownedState is an owner and its holds; the lock is free if there are none.
type ownedState struct {
	owner, holds int
	fence        uint64
}

func (Owned) Model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return ownedState{} },
		Step: func(state, input, _ any) (bool, any) {
			s := state.(ownedState)
			switch op := input.(type) {
			case Taken:
				if s.holds > 0 && s.owner == op.Share {
					// The fence may be higher: the owner may have held the lock in between, without a report.
					return op.Fence >= s.fence, ownedState{s.owner, s.holds + 1, op.Fence}
				}
				// The previous owner may have held it again meanwhile, without any report.
				rises := op.Fence > s.fence || op.Fence == s.fence && s.owner == op.Share
				return s.holds == 0 && rises, ownedState{op.Share, 1, op.Fence}
			case Given:
				return s.holds > 0 && s.owner == op.Share, ownedState{s.owner, s.holds - 1, s.fence}
			}
			return false, s
		},
	}
}
