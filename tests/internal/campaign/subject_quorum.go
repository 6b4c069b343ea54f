package campaign

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// Quorum is the lock over several independent servers. A fault strikes one of them, or sometimes all; two
// faults may strike two. Fences rise from grant to grant. A majority that restarted must be admitted again: the
// first process does that once the faults are over and no earlier lease is believed in. Then each process is
// granted each lock.
type Quorum struct{ Mutex }

// nodes is the number of nodes of a quorum.
const nodes = 3

func (Quorum) Name() string { return "quorum" }

func (Quorum) HasQueue() bool { return false }

func (Quorum) Nodes() int { return nodes }

// Prepare gives nodes time to answer, up to a quarter of the TTL, and to return from their quarantine before
// the history ends. Connections are not given up soon: on a busy machine, processes that keep opening new ones
// to three servers get nothing else done.
func (Quorum) Prepare(p *Plan) {
	p.CommandTimeout += 1500 * time.Millisecond
	p.ShortTTL += 600 * time.Millisecond
	p.LongestTTL = p.ShortTTL
	p.Active *= 3
}

func (Quorum) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	w := drawWant(random, p, n)
	w.Share, w.Poll = worker.Agreed, 0
	if random.IntN(4) > 0 { // otherwise it is the default
		w.NodeTimeout = w.TTL / 4
	}
	if random.IntN(3) == 0 { // for so long that it is still held when most nodes lose it
		w.Hold = w.TTL / 2
	}
	return []worker.Want{w}
}

func (Quorum) Finally(p *Plan) []worker.Want {
	return ofEach(p, func(w *worker.Want, _ Name) {
		w.Share, w.TTL, w.NodeTimeout = worker.Agreed, 2*p.LongestTTL, p.LongestTTL/2
	})
}
