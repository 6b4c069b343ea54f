package campaign

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// Quorum is the lock over several independent servers. Faults befall one of them, or at times
// all; two faults may take two. Fences rise from grant to grant. That a majority which has
// restarted needs to be admitted again is left to the first process, once faults are over and
// no lease of before is believed in; then each process is granted each lock.
type Quorum struct{ Mutex }

// nodes of a quorum.
const nodes = 3

func (Quorum) Name() string { return "quorum" }

func (Quorum) HasQueue() bool { return false }

func (Quorum) HasExactKeys() bool { return false }

func (Quorum) Nodes() int { return nodes }

// Prepare leaves nodes time to answer, a quarter of the TTL at most; and to come back from
// their quarantine while there is more to come. Connections are not given up soon: on a busy
// machine, processes that set up new ones to three servers again and again do nothing else.
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
	if random.IntN(3) == 0 { // for long enough to be held when most nodes lose it
		w.Hold = w.TTL / 2
	}
	return []worker.Want{w}
}

func (Quorum) Finally(p *Plan) (wants []worker.Want) {
	for _, n := range p.Names {
		wants = append(wants, worker.Want{Name: n.Name, Share: worker.Agreed, TTL: 2 * p.LongestTTL, NodeTimeout: p.LongestTTL / 2})
	}
	return wants
}
