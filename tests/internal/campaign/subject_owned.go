package campaign

import (
	"math/rand/v2"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

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

func (Owned) ShareFence(a, b history.Event) bool { return a.Share == b.Share }

func (Owned) Queue(key string) string { return key + ":own" }

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
					// The fence may also be one of holds that were never reported.
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
