package campaign

import (
	"math/rand/v2"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// Carried is the mutex, half of whose leases are detached and adopted by other processes.
type Carried struct{ Mutex }

func (Carried) Name() string { return "carried" }

func (Carried) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	wants := Mutex{}.Draw(random, p, n)
	for i := range wants {
		wants[i].Share = worker.Carried
	}
	return wants
}
