package campaign

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// Nested is several mutexes that are acquired one after the other, each within the lease of the one before, in any order. So callers come to
// wait for each other in circles. If one were not broken, its waiters would be stuck in the end.
type Nested struct{ Mutex }

func (Nested) Name() string { return "nested" }

// Prepare ensures that there is more than one lock, and gives circles time to be found.
func (Nested) Prepare(p *Plan) {
	Multi{}.Prepare(p)
	p.Active *= 3
}

func (Nested) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	w := together(drawWant(random, p, n), random, p.Names)
	w.Share, w.Again = worker.Nested, false
	w.Poll = 0 // those in the queue would overtake it, again and again, and be told of one circle after another
	return []worker.Want{w}
}

// Finally returns a want of all locks, in one order for all processes.
func (Nested) Finally(p *Plan) []worker.Want {
	wants := Multi{}.Finally(p)
	wants[0].Share = worker.Nested
	return wants
}

// Judge requires of each circle that somebody was told of that it existed at some time during the call.
func (Nested) Judge(v *Verdict, r *Record) {
	for _, d := range r.deadlocks {
		if !existed(d, r.Events) {
			v.find(Circle, "a caller was told, between %d and %d, of the circle %v, which there was not", d.Call, d.Return, d.Circle)
		}
	}
}

// span is a time during which something may have been so.
type span struct{ from, to int64 }

// existed reports whether at some moment each process of the circle may have held its lock and waited for that of the next.
func existed(d worker.Deadlock, events []history.Event) bool {
	common := []span{{d.Call, d.Return}}
	for i, k := range d.Circle {
		wanted := d.Circle[(i+1)%len(d.Circle)].Name
		var waits []span
		for _, held := range events {
			if held.Process != k.Process || held.Name != k.Name || held.Granted == 0 {
				continue
			}
			for _, e := range events {
				if e.Process == held.Process && e.Goroutine == held.Goroutine && e.Name == wanted {
					waits = append(waits, span{
						max(held.Asked, e.Asked),
						min(cmp.Or(held.Released, math.MaxInt64), cmp.Or(e.Granted, e.GaveUp, math.MaxInt64)),
					})
				}
			}
		}
		common = overlapping(common, waits)
	}
	return len(common) > 0
}

// overlapping returns the times that are in a span of each list.
func overlapping(a, b []span) (both []span) {
	for _, x := range a {
		for _, y := range b {
			if from, to := max(x.from, y.from), min(x.to, y.to); from <= to {
				both = append(both, span{from, to})
			}
		}
	}
	return slices.Compact(both)
}
