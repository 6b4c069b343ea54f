package campaign

import (
	"math/rand/v2"
	"slices"
)

// coverage counts how often kinds of faults happened, alone and in pairs, and chooses what comes next.
// Histories under way count.
type coverage struct {
	kinds  []*Kind
	alone  []int
	pairs  map[[2]int]int // the lower index first
	random *rand.Rand
}

func newCoverage(kinds []*Kind, seed uint64) *coverage {
	c := &coverage{kinds: kinds, alone: make([]int, len(kinds)), pairs: map[[2]int]int{}, random: rand.New(rand.NewPCG(seed, 3))}
	for i := range kinds {
		for j := range i {
			c.pairs[[2]int{j, i}] = 0
		}
	}
	return c
}

// draw chooses the kinds of the next history: mostly pairs, the least covered ones, and now and then none.
func (c *coverage) draw(aloneFirst bool) []*Kind {
	if len(c.kinds) == 0 {
		return nil
	}
	i, n := c.leastAlone()
	switch x := c.random.IntN(100); {
	case n == 0 || aloneFirst:
	case x < 3:
		return nil
	case x < 8 || len(c.kinds) == 1:
	default:
		pair, _ := c.leastPair()
		c.pairs[pair]++
		return []*Kind{c.kinds[pair[0]], c.kinds[pair[1]]}
	}
	c.alone[i]++
	return []*Kind{c.kinds[i]}
}

func (c *coverage) leastAlone() (kind, n int) {
	for i, m := range c.alone {
		if i == 0 || m < n {
			kind, n = i, m
		}
	}
	return kind, n
}

// leastPair chooses among the pairs that were covered least.
func (c *coverage) leastPair() (pair [2]int, n int) {
	alike := 0
	for i := range c.kinds {
		for j := range i {
			p := [2]int{j, i}
			m := c.pairs[p]
			switch {
			case alike == 0 || m < n:
				pair, n, alike = p, m, 1
			case m == n:
				alike++
				if c.random.IntN(alike) == 0 {
					pair = p
				}
			}
		}
	}
	return pair, n
}

// void undoes the count of draw for a history that does not count.
func (c *coverage) void(kinds []*Kind) {
	var at []int
	for _, k := range kinds {
		at = append(at, slices.Index(c.kinds, k))
	}
	switch len(at) {
	case 1:
		c.alone[at[0]]--
	case 2:
		c.pairs[[2]int{min(at[0], at[1]), max(at[0], at[1])}]--
	}
}

// complete reports whether every kind happened alone.
func (c *coverage) complete() bool {
	_, alone := c.leastAlone()
	return alone > 0 || len(c.kinds) == 0
}

// least returns how often the least covered pair and kind happened.
func (c *coverage) least() (pair, alone int) {
	_, pair = c.leastPair()
	_, alone = c.leastAlone()
	return pair, alone
}
