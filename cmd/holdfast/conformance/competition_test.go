package main

import (
	"strings"
	"testing"
	"time"
)

// Only readers may have the lock, and a fence, at the same time.
func TestTurnsAreJudged(t *testing.T) {
	t.Parallel()
	r := func(from, to int, fence uint64) turn {
		return turn{"client 1", time.Duration(from), time.Duration(to), fence, true}
	}
	w := func(from, to int, fence uint64) turn {
		return turn{"client 2", time.Duration(from), time.Duration(to), fence, false}
	}
	for name, c := range map[string]struct {
		turns []turn
		want  string // part of the problem; empty if there is none
	}{
		"none":                        {nil, "no turn"},
		"in turn":                     {[]turn{w(0, 1, 1), r(2, 9, 2), r(3, 5, 2), w(10, 11, 3), r(12, 13, 4)}, ""},
		"a writer beside a writer":    {[]turn{w(0, 5, 1), w(3, 6, 2)}, "at once"},
		"a reader beside a writer":    {[]turn{w(0, 5, 1), r(3, 6, 2)}, "at once"},
		"a writer beside a reader":    {[]turn{r(0, 5, 1), w(3, 6, 2)}, "at once"},
		"beside a reader that stays":  {[]turn{r(0, 9, 1), r(1, 2, 1), w(3, 4, 2)}, "at once"},
		"a writer with a reader's":    {[]turn{r(0, 1, 7), w(2, 3, 7)}, "the fence 7"},
		"a reader with a writer's":    {[]turn{w(0, 1, 7), r(2, 3, 7)}, "the fence 7"},
		"a reader below a reader":     {[]turn{r(0, 1, 7), r(2, 3, 6)}, "the fence 6"},
		"a writer below the last one": {[]turn{w(0, 1, 7), r(2, 3, 8), w(4, 5, 6)}, "the fence 6"},
	} {
		err := judge(c.turns)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, and not %q", name, err, c.want)
		}
	}
}
