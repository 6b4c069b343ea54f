package campaign

import (
	"math/rand/v2"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// Election has terms in place of grants. A term begins when the leader's function is called. It ends when that
// function returns or when the term's deadline passes. There is one leader at a time, the fences of terms rise,
// and after the faults each process leads once more.
type Election struct{ Mutex }

func (Election) Name() string { return "election" }

// HasExactKeys returns false: an election is known by its name.
func (Election) HasExactKeys() bool { return false }

func (Election) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	var wants []worker.Want
	for range 1 + random.IntN(2) {
		w := drawWant(random, p, n)
		w.Share, w.Try = worker.Leading, false
		wants = append(wants, w)
	}
	return wants
}

func (Election) Finally(p *Plan) (wants []worker.Want) {
	for _, n := range p.Names {
		wants = append(wants, worker.Want{Name: n.Name, Share: worker.Leading, TTL: p.LongestTTL})
	}
	return wants
}
