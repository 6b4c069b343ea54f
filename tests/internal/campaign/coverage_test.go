package campaign

import "testing"

func TestCoverageMeetsEveryPair(t *testing.T) {
	c := newCoverage(kinds[:8], 1) // 28 pairs
	calm := 0
	for !c.complete(3) {
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
	if pairs, least, alone := c.state(); pairs != 28 || least != 3 || alone < 1 {
		t.Errorf("%d pairs, %d, %d", pairs, least, alone)
	}

	// A void history is drawn again; one of an earlier campaign is not.
	c.void([]*Kind{kinds[3], kinds[1]})
	c.void([]*Kind{kinds[3], kinds[1]})
	if c.complete(3) {
		t.Error("void histories count")
	}
	fresh := newCoverage(kinds[:2], 1)
	for range 5 {
		fresh.add([]string{kinds[1].Name, kinds[0].Name})
	}
	fresh.add([]string{kinds[0].Name})
	fresh.add([]string{kinds[1].Name})
	fresh.add([]string{kinds[7].Name, kinds[0].Name}) // of other kinds
	if !fresh.complete(5) || fresh.complete(6) {
		t.Errorf("an earlier campaign counts as %v, %v", fresh.pairs, fresh.alone)
	}
}

func TestCoverageBeginsWithEveryKindAlone(t *testing.T) {
	c := newCoverage(kinds, 1)
	for range kinds {
		if drawn := c.draw(true); len(drawn) != 1 {
			t.Fatalf("drew %d kinds", len(drawn))
		}
	}
	if !c.complete(0) {
		t.Error("some kind was not drawn")
	}
}
