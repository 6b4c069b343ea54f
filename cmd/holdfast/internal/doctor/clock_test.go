package doctor

import (
	"math/rand/v2"
	"testing"
	"time"
)

// simulate reads a server's clock 20 times within a second, over a way with changing
// delays, at most delay each. server says what it shows at a time.
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
		offset  time.Duration // at the beginning, to be found within the doubt and what the rate makes of it
		step    time.Duration // to be found but for what is not certain
		rate    float64
		saw     Severity
		drifted time.Duration
	}{
		"the same":      {func(t time.Duration) time.Duration { return t }, 0, 0, 0, OK, 0},
		"ahead":         {func(t time.Duration) time.Duration { return t + 300*time.Millisecond }, 300 * time.Millisecond, 0, 0, OK, 0},
		"hours behind":  {func(t time.Duration) time.Duration { return t - 2*time.Hour }, -2 * time.Hour, 0, 0, Note, 0},
		"jumps forward": {jump(200 * time.Millisecond), 0, 200 * time.Millisecond, 0, Problem, 200 * time.Millisecond},
		"jumps back":    {jump(-time.Minute), 0, -time.Minute, 0, Warning, time.Minute},
		"slewed a bit":  {func(t time.Duration) time.Duration { return t + t/2000 }, 0, 0, 0.0005, OK, time.Millisecond},
		"too fast":      {func(t time.Duration) time.Duration { return t + t/20 }, 0, 0, 0.05, Problem, 100 * time.Millisecond},
		"too slow":      {func(t time.Duration) time.Duration { return t - t/20 }, 0, 0, -0.05, Problem, 100 * time.Millisecond},
	} {
		for seed := range uint64(200) {
			samples := simulate(rand.New(rand.NewPCG(seed, 1)), 3*time.Millisecond, c.server)
			w := estimate(samples)
			if off := (w.offset - c.offset).Abs(); off > w.doubt+c.drifted {
				t.Errorf("%s, seed %d: offset %s ± %s, want %s", name, seed, w.offset, w.doubt, c.offset)
			}
			if c.step == 0 && w.step != 0 {
				t.Errorf("%s, seed %d: step %s, and there is none", name, seed, w.step)
			}
			// What is certain is less than the step by what round trips and slewing may explain.
			if c.step != 0 && (w.step.Abs() > c.step.Abs() || (w.step-c.step).Abs() > uncertain(samples)) {
				t.Errorf("%s, seed %d: step %s, want %s less %s at most", name, seed, w.step, c.step, uncertain(samples))
			}
			if abs(w.rate-c.rate) > w.rateDoubt+1e-9 {
				t.Errorf("%s, seed %d: rate %f ± %f, want %f", name, seed, w.rate, w.rateDoubt, c.rate)
			}
			if got := judge(w); got.Severity != c.saw {
				t.Errorf("%s, seed %d: %+v", name, seed, got)
			}
		}
	}
}

// uncertain returns by how much at most the step between two samples is larger than what is certain:
// they show it with the errors of both offsets, of which estimate takes off as much again, and what
// slewing can do.
func uncertain(samples []sample) (most time.Duration) {
	for i := 1; i < len(samples); i++ {
		s, t := samples[i-1], samples[i]
		most = max(most, 2*(s.doubt()+t.doubt())+time.Duration(mostSlew*float64(t.received-s.sent)))
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

// Over a slow way nothing is found that is not there.
func TestEstimateOverASlowWay(t *testing.T) {
	for seed := range uint64(500) {
		w := estimate(simulate(rand.New(rand.NewPCG(seed, 2)), 200*time.Millisecond, func(t time.Duration) time.Duration { return t }))
		if f := judge(w); f.Severity != OK || w.offset.Abs() > w.doubt {
			t.Errorf("seed %d: %+v, offset %s ± %s", seed, f, w.offset, w.doubt)
		}
	}
}

// One reading is an offset, and nothing else.
func TestEstimateOfOneSample(t *testing.T) {
	w := estimate([]sample{{0, 2 * time.Millisecond, 5 * time.Millisecond}})
	if w.offset != 4*time.Millisecond || w.doubt < time.Millisecond || w.step != 0 || w.rate != 0 {
		t.Errorf("%+v", w)
	}
}

func TestSpread(t *testing.T) {
	x := &examination{Config: Config{TTL: 15 * time.Second}}
	a, b, c := &node{addr: "a"}, &node{addr: "b"}, &node{addr: "c"}
	near := map[*node]watch{a: {offset: 0, doubt: 1e6}, b: {offset: 150e6, doubt: 1e6}, c: {offset: 70e6, doubt: 1e6}}
	if f, apart := x.spread(near); apart {
		t.Errorf("within what a lease can spare: %+v", f)
	}
	far := map[*node]watch{a: {offset: -100e6, doubt: 1e6}, b: {offset: 100e6, doubt: 1e6}, c: {}}
	f, apart := x.spread(far)
	if !apart || f.Severity != Warning || len(f.Servers) != 2 || f.Servers[0] != "b" || f.Servers[1] != "a" {
		t.Errorf("%v %+v", apart, f)
	}
	vague := map[*node]watch{a: {offset: -100e6, doubt: 50e6}, b: {offset: 100e6, doubt: 50e6}}
	if f, apart := x.spread(vague); apart {
		t.Errorf("not certain: %+v", f)
	}
}
