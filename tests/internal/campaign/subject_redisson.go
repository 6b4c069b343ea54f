package campaign

import (
	"math/rand/v2"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// Redisson is the mutex in Redisson's form. Programs that know only SET do not share it. Other tests have
// Redisson's own clients.
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

func (Redisson) Queue(key string) string { return "holdfast:{" + key + "}:key:redisson" }
