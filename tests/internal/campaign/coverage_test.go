package campaign

import "testing"

func TestCoverageMeetsEveryPair(t *testing.T) {
	c := newCoverage(kinds[:8], 1) // 28 pairs
	calm := 0
	for pair, alone := 0, 0; pair < 3 || alone < 1; pair, alone = c.least() {
		drawn := c.draw(false)
		if len(drawn) == 0 {
			calm++
		}
		if calm > 100 {
			t.Fatal("nothing but calm")
		}
	}
	for pair, n := range c.pairs {
		if n < 3 || n > 4 {
			t.Errorf("pair %v happened %d times", pair, n)
		}
	}
	// A void history is drawn again.
	c.void([]*Kind{kinds[3], kinds[1]})
	c.void([]*Kind{kinds[3], kinds[1]})
	if pair, _ := c.least(); len(c.pairs) != 28 || pair > 2 {
		t.Errorf("with two void histories, each of %d pairs happened %d times", len(c.pairs), pair)
	}
}

func TestCoverageBeginsWithEveryKindAlone(t *testing.T) {
	c := newCoverage(kinds, 1)
	for range kinds {
		if drawn := c.draw(true); len(drawn) != 1 {
			t.Fatalf("drew %d kinds", len(drawn))
		}
	}
	if !c.complete() {
		t.Error("some kind was not drawn")
	}
}
