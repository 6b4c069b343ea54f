package main

import (
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

// Ratios are computed for each round. A machine that is slow in one round slows both ways, so the ratios do not change.
func TestSumUp(t *testing.T) {
	r := &result{figures: freeFigures, rounds: [][2]values{
		{ours: {"cycles_per_s": 10, "p50_us": 4, "lost": 1}, bare: {"cycles_per_s": 20, "p50_us": 0, "p99_us": 9}},
		{ours: {"cycles_per_s": 30, "p50_us": 6}, bare: {"cycles_per_s": 10, "p50_us": 2, "p99_us": 7}},
		{ours: {"cycles_per_s": 20, "p50_us": 5, "lost": 2}, bare: {"cycles_per_s": 20, "p99_us": 8}},
	}}
	r.sumUp()
	_, measured := r.Holdfast["p99_us"]
	if r.Holdfast["cycles_per_s"] != 20 || r.Holdfast["p50_us"] != 5 || measured || r.Bare["p99_us"] != 8 {
		t.Errorf("sums: %v and %v", r.Holdfast, r.Bare)
	}
	if r.Holdfast["lost"] != 3 {
		t.Errorf("%v were lost, want 3", r.Holdfast["lost"])
	}
	if got, want := r.Ratios["cycles_per_s"], (ratio{Median: 1, Lowest: 0.5, Highest: 3}); got != want {
		t.Errorf("ratio of rates: %+v, want %+v", got, want)
	}
	if got, want := r.Ratios["p50_us"], (ratio{Median: 3, Lowest: 3, Highest: 3}); got != want { // the only round with both
		t.Errorf("ratio of medians: %+v, want %+v", got, want)
	}
	if q, is := r.Ratios["p99_us"]; is {
		t.Errorf("ratio to what was not measured: %+v", q)
	}
}

// Of a round that was not completed, overlaps and losses count, and nothing else.
func TestFaultsOfUnfinishedRoundsCount(t *testing.T) {
	r := &result{figures: freeFigures}
	r.addFaults([2]values{ours: {"cycles_per_s": 10, "lost": 1}})
	if r.sumUp(); len(r.Holdfast) != 1 || r.Holdfast["lost"] != 1 {
		t.Errorf("sums: %v", r.Holdfast)
	}
}

func TestValues(t *testing.T) {
	v := values{}
	v.set("none", math.NaN())
	v.set("endless", math.Inf(1))
	v.setTimes("p50", "p99", nil)
	v.setCPU(cpu{server: 5, client: math.NaN()}, cpu{server: 2, client: 3}, 1)
	if len(v) > 0 {
		t.Errorf("%v was not measured", v)
	}
	v.setTimes("p50", "p99", []time.Duration{1500})
	v.setCPU(cpu{server: 2, client: 1}, cpu{server: 8, client: 2}, 2)
	if v["p50"] != 1.5 || v["p99"] != 1.5 || v["server_cpu_us"] != 3 || v["client_cpu_us"] != 0.5 {
		t.Errorf("%v", v)
	}
}

func TestNumbersInText(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{duration(87.04), "87.0 µs"},
		{duration(12_345), "12.3 ms"},
		{duration(2_500_000), "2.50 s"},
		{lost.of(values{}), "-"},
		{lost.of(values{"lost": 1234}), "1,234"},
		{console.Count(1, "round"), "1 round"},
		{console.Count(3, "round"), "3 rounds"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, d := range []time.Duration{minTime / 4, 2 * time.Second, 10 * time.Second, time.Minute, maxTime} {
		for _, turns := range []int{2, 8} {
			rounds, turn := split(d, turns, 400*time.Millisecond, 5)
			if sum := time.Duration(rounds*turns) * turn; sum > d || sum < d-time.Millisecond || rounds%2 == 0 || rounds > 5 || turn <= 0 {
				t.Errorf("%s in turns of %d: %d rounds of %s", d, turns, rounds, turn)
			}
		}
	}
	if rounds, _ := split(27*time.Second, 8, 400*time.Millisecond, 5); rounds != 5 {
		t.Errorf("in a minute free has %d rounds", rounds)
	}
}

func TestParseCPU(t *testing.T) {
	got, err := parseCPU("# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_sys_children:40.0\r\n")
	if want := 3750000.0; err != nil || got != want {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, text := range []string{"", "# CPU\r\nused_cpu_sys:1.5\r\n", "used_cpu_sys:x\r\nused_cpu_user:1\r\n"} {
		if got, err := parseCPU(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
