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

func (Election) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	return drawWants(random, p, n, 2, func(w *worker.Want) { w.Share, w.Try = worker.Leading, false })
}

func (Election) Finally(p *Plan) []worker.Want {
	return ofEach(p, func(w *worker.Want, _ Name) { w.Share = worker.Leading })
}
