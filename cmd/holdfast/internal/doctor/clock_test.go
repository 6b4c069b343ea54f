package doctor

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// simulate reads a server's clock 20 times within a second, over a connection with random delays of at most delay.
// server returns what the clock shows at a time.
func simulate(rng *rand.Rand, delay time.Duration, server func(time.Duration) time.Duration) (all []sample) {
	now := time.Duration(0)
	for range 20 {
		there, back := time.Duration(rng.Int64N(int64(delay))), time.Duration(rng.Int64N(int64(delay)))
		all = append(all, sample{now, now + there + back, server(now + there)})
		now += there + back + 50*time.Millisecond
	}
	return all
}

func TestEstimate(t *testing.T) {
	for name, c := range map[string]struct {
		server  func(time.Duration) time.Duration
		offset  time.Duration // at the beginning; the estimate may differ by its doubt and by drifted
		jump    time.Duration // to be found, less what is not certain
		saw     Severity
		drifted time.Duration
	}{
		"the same":      {func(t time.Duration) time.Duration { return t }, 0, 0, OK, 0},
		"ahead":         {func(t time.Duration) time.Duration { return t + 300*time.Millisecond }, 300 * time.Millisecond, 0, OK, 0},
		"hours behind":  {func(t time.Duration) time.Duration { return t - 2*time.Hour }, -2 * time.Hour, 0, Note, 0},
		"jumps forward": {jump(200 * time.Millisecond), 0, 200 * time.Millisecond, Problem, 200 * time.Millisecond},
		"jumps back":    {jump(-time.Minute), 0, -time.Minute, Warning, time.Minute},
		"slewed a bit":  {func(t time.Duration) time.Duration { return t + t/2000 }, 0, 0, OK, time.Millisecond},
	} {
		for seed := range uint64(200) {
			samples := simulate(rand.New(rand.NewPCG(seed, 1)), 3*time.Millisecond, c.server)
			w := estimate(samples)
			if off := (w.offset - c.offset).Abs(); off > w.doubt+c.drifted {
				t.Errorf("%s, seed %d: offset %s ± %s, want %s", name, seed, w.offset, w.doubt, c.offset)
			}
			if c.jump == 0 && w.jump != 0 {
				t.Errorf("%s, seed %d: jump %s, but there is none", name, seed, w.jump)
			}
			// The certain part of a jump is smaller than the jump, by what round trips and slewing may explain.
			if c.jump != 0 && (w.jump.Abs() > c.jump.Abs() || (w.jump-c.jump).Abs() > uncertain(samples)) {
				t.Errorf("%s, seed %d: jump %s, want %s less %s at most", name, seed, w.jump, c.jump, uncertain(samples))
			}
			if got := judgeClock(w); got.Severity != c.saw {
				t.Errorf("%s, seed %d: %+v", name, seed, got)
			}
		}
	}
}

// uncertain returns by how much a jump between two samples may exceed its certain part: the errors of both offsets, once in the samples and
// once in what estimate subtracts, and the effect of slewing.
func uncertain(samples []sample) (most time.Duration) {
	for i := 1; i < len(samples); i++ {
		s, t := samples[i-1], samples[i]
		most = max(most, 2*(s.doubt()+t.doubt())+time.Duration(maxSlew*float64(t.received-s.sent)))
	}
	return most
}

func jump(d time.Duration) func(time.Duration) time.Duration {
	return func(t time.Duration) time.Duration {
		if t > 400*time.Millisecond {
			return t + d
		}
		return t
	}
}

// Over a slow connection, no jump is found unless there is one.
func TestEstimateOverASlowConnection(t *testing.T) {
	for seed := range uint64(500) {
		w := estimate(simulate(rand.New(rand.NewPCG(seed, 2)), 200*time.Millisecond, func(t time.Duration) time.Duration { return t }))
		if f := judgeClock(w); f.Severity != OK || w.offset.Abs() > w.doubt {
			t.Errorf("seed %d: %+v, offset %s ± %s", seed, f, w.offset, w.doubt)
		}
	}
}

// A single reading gives only an offset.
func TestEstimateOfOneSample(t *testing.T) {
	w := estimate([]sample{{0, 2 * time.Millisecond, 5 * time.Millisecond}})
	if w.offset != 4*time.Millisecond || w.doubt < time.Millisecond || w.jump != 0 {
		t.Errorf("%+v", w)
	}
}

func TestCompareClocks(t *testing.T) {
	const ttl = 15 * time.Second
	near := map[string]watch{"a": {offset: 0, doubt: 1e6}, "b": {offset: 150e6, doubt: 1e6}, "c": {offset: 70e6, doubt: 1e6}}
	if found := compareClocks(near, ttl); found != nil {
		t.Errorf("within what a lease can spare: %+v", found)
	}
	far := map[string]watch{"a": {offset: -100e6, doubt: 1e6}, "b": {offset: 100e6, doubt: 1e6}, "c": {}}
	found := compareClocks(far, ttl)
	if len(found) != 1 || found[0].Severity != Warning || !slices.Equal(found[0].Servers, []string{"b", "a"}) {
		t.Errorf("%+v", found)
	}
	vague := map[string]watch{"a": {offset: -100e6, doubt: 50e6}, "b": {offset: 100e6, doubt: 50e6}}
	if found := compareClocks(vague, ttl); found != nil {
		t.Errorf("not certain: %+v", found)
	}
}
