package voting

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/schedule"
)

// refill asks the nodes that do not hold a lease's lock for it, from time to time, until all do or the lease is over. Nobody else can hold
// the lock meanwhile: a majority of nodes holds it for the lease until its deadlines.
func (q *Quorum) refill(b *lease, refilling *atomic.Bool) {
	l := b.l
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, l.first().Set.TTL/3) {
		select {
		case <-time.After(schedule.Jitter(pause, 20)):
		case <-b.Context().Done():
			return
		}
		missing := q.missing(b)
		if len(missing) == 0 {
			refilling.Store(false)
			if missing = q.missing(b); len(missing) == 0 || !refilling.CompareAndSwap(false, true) {
				return
			}
		}
		for _, i := range missing {
			if b.Err() != nil {
				return
			}
			q.refillNode(b, i)
		}
	}
}

// missing returns the nodes that do not hold a lease's lock.
func (q *Quorum) missing(b *lease) []int {
	there := b.Nodes()
	var all []int
	for i, c := range q.clients {
		if !slices.Contains(there, c) {
			all = append(all, i)
		}
	}
	return all
}

func (q *Quorum) refillNode(b *lease, i int) {
	q.beginTask()
	defer q.endTask()
	v := q.newVote(b.l, i, b.round)
	if v.err == nil {
		v = q.askByScript(b.Context(), b.l, v, terms{&holdersTicket, q.timeout(b.l)})
	}
	if v.behind != "" {
		_ = q.repair(b.Context(), b.l, marks{i: v.behind})
	}
	if !v.a.IsGranted() {
		q.giveBack(v)
		return
	}
	// The node's counter may be below the lease's fence: only a majority has to know that fence, and does.
	b.Add(v.a)
}
