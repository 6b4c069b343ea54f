package campaign

import (
	"math/rand/v2"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// Redisson is the mutex in the form in which Redisson keeps its lock. Programs that know only SET
// do not share it; Redisson's own clients are for other tests.
type Redisson struct{ Mutex }

func (Redisson) Name() string { return "redisson" }

// Prepare gives each lock an exact key.
func (Redisson) Prepare(p *Plan) {
	for i := range p.Names {
		n := &p.Names[i]
		n.share()
		n.Queue = Redisson{}.Queue(n.Key)
	}
}

func (Redisson) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	wants := Mutex{}.Draw(random, p, n)
	for i := range wants {
		wants[i].Redisson = true
	}
	return wants
}

func (Redisson) HasExactKeys() bool { return false }

func (Redisson) Queue(key string) string { return "holdfast:{" + key + "}:key:redisson" }
