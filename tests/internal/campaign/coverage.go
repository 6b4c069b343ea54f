package campaign

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// coverage counts how often kinds of faults happened, alone and in pairs, and chooses what comes next.
// Histories under way count.
type coverage struct {
	kinds        []*Kind
	alone, pairs []*combination
	random       *rand.Rand
}

// combination is the kinds of faults of a history.
type combination struct {
	kinds []*Kind
	times int // that it was drawn
}

func newCoverage(kinds []*Kind, seed uint64) *coverage {
	c := &coverage{kinds: kinds, random: rand.New(rand.NewPCG(seed, 3))}
	for i, k := range kinds {
		c.alone = append(c.alone, &combination{kinds: []*Kind{k}})
		for _, other := range kinds[:i] {
			c.pairs = append(c.pairs, &combination{kinds: []*Kind{other, k}})
		}
	}
	return c
}

// draw chooses the kinds of the next history: mostly pairs, any of the least covered ones, and now and then none.
func (c *coverage) draw(aloneFirst bool) []*Kind {
	if len(c.kinds) == 0 {
		return nil
	}
	next := rarest(c.alone)
	switch x := c.random.IntN(100); {
	case next.times == 0 || aloneFirst:
	case x < 3:
		return nil
	case x >= 8 && len(c.pairs) > 0:
		c.random.Shuffle(len(c.pairs), func(i, j int) { c.pairs[i], c.pairs[j] = c.pairs[j], c.pairs[i] })
		next = rarest(c.pairs)
	}
	next.times++
	return next.kinds
}

// rarest returns the first of the combinations that were drawn least; one that never was if there are none.
func rarest(all []*combination) *combination {
	if len(all) == 0 {
		return &combination{}
	}
	return slices.MinFunc(all, func(a, b *combination) int { return cmp.Compare(a.times, b.times) })
}

// void undoes the count of draw for a history that does not count.
func (c *coverage) void(kinds []*Kind) {
	for _, x := range slices.Concat(c.alone, c.pairs) {
		if slices.Equal(x.kinds, kinds) {
			x.times--
		}
	}
}

// complete reports whether every kind happened alone.
func (c *coverage) complete() bool { return len(c.kinds) == 0 || rarest(c.alone).times > 0 }

// least returns how often the least covered pair and kind happened.
func (c *coverage) least() (pair, alone int) { return rarest(c.pairs).times, rarest(c.alone).times }
