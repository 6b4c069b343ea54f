package campaign

import (
	"math/rand/v2"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// Multi is several mutexes that are held as one. Each is judged as a mutex, together with holders that want it
// alone. If one lock were kept when the others are not granted, or if callers waited for each other, some
// waiter would wait forever.
type Multi struct{ Mutex }

func (Multi) Name() string { return "multi" }

// Prepare ensures that there is more than one lock.
func (Multi) Prepare(p *Plan) {
	if len(p.Names) == 1 {
		p.Names = append(p.Names, Name{Name: "b", Key: "holdfast:{b}", Queue: "holdfast:{b}:q"})
	}
}

// Draw returns ways to hold the lock together with others, in any order, and sometimes a way to hold it alone.
func (Multi) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	var wants []worker.Want
	for range 1 + random.IntN(2) {
		wants = append(wants, together(drawWant(random, p, n), random, p.Names))
	}
	if random.IntN(2) == 0 {
		w := drawWant(random, p, n)
		w.Weight = 1
		wants = append(wants, w)
	}
	return wants
}

// together turns a want of one lock into one of that lock and others.
func together(w worker.Want, random *rand.Rand, names []Name) worker.Want {
	w.Share = worker.Together
	for _, i := range random.Perm(len(names)) {
		if other := names[i].Name; other != w.Name {
			w.With = append(w.With, other)
		}
	}
	w.With = w.With[:1+random.IntN(len(w.With))]
	w.Again = random.IntN(3) == 0
	return w
}

// Finally returns a want of all locks at once.
func (Multi) Finally(p *Plan) []worker.Want {
	w := worker.Want{Name: p.Names[0].Name, Share: worker.Together, TTL: p.LongestTTL}
	for _, n := range p.Names[1:] {
		w.With = append(w.With, n.Name)
	}
	return []worker.Want{w}
}
