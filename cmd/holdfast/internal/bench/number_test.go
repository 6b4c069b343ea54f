package bench

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	if p50, p99 := quantiles([]time.Duration{1500}); p50 != 1.5 || p99 != 1.5 {
		t.Errorf("p50 %v and p99 %v of one of 1.5 µs", p50, p99)
	}
	if p50, p99 := quantiles(nil); p50.measured() || p99.measured() {
		t.Errorf("p50 %v and p99 %v of none", p50, p99)
	}
}

// Ratios are computed in each round, so a machine that is slow in one round slows both ways, and does not show.
func TestRatiosArePaired(t *testing.T) {
	got := newRatio([]Number{10, 1, 30}, []Number{20, 2, 15})
	if want := (Ratio{Median: 0.5, Lowest: 0.5, Highest: 2}); got != want {
		t.Errorf("ratio %+v, want %+v", got, want)
	}
	got = newRatio([]Number{10, unmeasured, 3, 8}, []Number{20, 2, 0, 2})
	if want := (Ratio{Median: 2.25, Lowest: 0.5, Highest: 4}); got != want {
		t.Errorf("with figures that were not measured, or are 0: %+v, want %+v", got, want)
	}
	if got := newRatio(nil, nil); got.Median.measured() || got.Lowest.measured() || got.Highest.measured() {
		t.Errorf("ratio of nothing: %+v", got)
	}
}

func TestNumbersInJSON(t *testing.T) {
	text, err := json.Marshal([]Number{0, 1.23456789, 123456.789, unmeasured, Number(math.Inf(1))})
	if want := "[0,1.2346,123460,null,null]"; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

func TestNumbersInText(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{figure(1234567, " bytes"), "1,234,567 bytes"},
		{figure(unmeasured, " bytes"), "-"},
		{duration(87.04), "87.0 µs"},
		{duration(12_345), "12.3 ms"},
		{duration(2_500_000), "2.50 s"},
		{duration(unmeasured), "-"},
		{Ratio{Median: 2, Lowest: 1.5, Highest: 12}.span(), "1.50-12"},
		{plural(1, "round"), "1 round"},
		{plural(3, "round"), "3 rounds"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestPlans(t *testing.T) {
	for _, d := range []time.Duration{MinFor, 2 * time.Second, 10 * time.Second, time.Minute, MaxFor} {
		for _, levels := range [][]int{{1}, {1, 8, 64, 512}, {1, 2, 3, 4, 5, 6, 7, 8}} {
			p := newPlan(Config{For: d, Levels: levels})
			free := p.freeTurn * time.Duration(2*len(levels)*p.freeRounds)
			contended := p.contendedTurn * time.Duration(2*p.contendedRounds)
			if sum := free + contended + p.held; sum > d || sum < d-time.Millisecond {
				t.Errorf("%s, %d levels: %+v takes %s", d, len(levels), p, sum)
			}
			if p.freeRounds%2 == 0 || p.contendedRounds%2 == 0 || min(p.freeTurn, p.contendedTurn, p.held) <= 0 {
				t.Errorf("%s, %d levels: %+v", d, len(levels), p)
			}
		}
	}
	if p := newPlan(Config{For: time.Minute, Levels: []int{1, 8, 64, 512}}); p.freeRounds != 5 || p.contendedRounds != 3 || p.held*2/3 < ttl {
		t.Errorf("a minute is spent as %+v; leases have to be held for longer than their TTL", p)
	}
}

func TestParseCPU(t *testing.T) {
	got, err := parseCPU("# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_sys_children:40.0\r\n")
	if want := 3750 * time.Millisecond; err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	for _, text := range []string{"", "# CPU\r\nused_cpu_sys:1.5\r\n", "used_cpu_sys:x\r\nused_cpu_user:1\r\n"} {
		if got, err := parseCPU(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func TestSumUp(t *testing.T) {
	sums, ratios := sumUp(cycleColumns, [][2]Cycle{
		{ours: {Rate: 10, P50: 4, P99: unmeasured}, floor: {Rate: 20, P50: 2, P99: 9}},
		{ours: {Rate: 30, P50: 6, P99: unmeasured}, floor: {Rate: 10, P50: 2, P99: 7}},
		{ours: {Rate: 20, P50: 5, P99: unmeasured}, floor: {Rate: 20, P50: 2, P99: 8}},
	})
	if sums[ours].Rate != 20 || sums[ours].P50 != 5 || sums[ours].P99.measured() || sums[floor].P99 != 8 {
		t.Errorf("sums: %+v", sums)
	}
	if want := (Ratio{Median: 1, Lowest: 0.5, Highest: 3}); ratios.Rate != want || ratios.P99.Median.measured() {
		t.Errorf("ratios: %+v, want a rate of %+v", ratios, want)
	}
}
