package bench

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []Number
		want   Number
	}{
		{[]Number{3}, 3},
		{[]Number{9, 1, 5}, 5},
		{[]Number{4, 1, 2, 9}, 3},
		{[]Number{4, unmeasured, 2}, 3},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
	for _, none := range [][]Number{nil, {unmeasured}} {
		if got := median(none); got.measured() {
			t.Errorf("median of %v is %v", none, got)
		}
	}
	values := []Number{3, 1, 2}
	if median(values); values[0] != 3 {
		t.Error("median has sorted the rounds of another figure")
	}
}

func TestQuantiles(t *testing.T) {
	var all []time.Duration
	for i := 200; i > 0; i-- {
		all = append(all, time.Duration(i)*time.Microsecond)
	}
	if p50, p99 := quantiles(all); p50 != 100 || p99 != 198 {
		t.Errorf("p50 %v and p99 %v of 1 to 200", p50, p99)
	}
	if p50, p99 := quantiles([]time.Duration{1500}); p50 != 1.5 || p99 != 1.5 {
		t.Errorf("p50 %v and p99 %v of one of 1.5 µs", p50, p99)
	}
	if p50, p99 := quantiles(nil); p50.measured() || p99.measured() {
		t.Errorf("p50 %v and p99 %v of none", p50, p99)
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		got  []int
		want Number
	}{
		{[]int{7, 7, 7}, 1},
		{[]int{5, 0, 0, 0}, 0.25},
		{[]int{3, 1}, 0.8},
	} {
		if got := jain(c.got); math.Abs(float64(got-c.want)) > 1e-12 {
			t.Errorf("index of %v is %v, want %v", c.got, got, c.want)
		}
	}
	if got := jain([]int{0, 0}); got.measured() {
		t.Errorf("index of none is %v", got)
	}
}

// Rounds are compared each with its own, and then the ratios: a machine that is slow for one
// round, for both, does not show.
func TestRatiosArePaired(t *testing.T) {
	got := ratio([]Number{10, 1, 30}, []Number{20, 2, 15})
	if want := (Ratio{Median: 0.5, Lowest: 0.5, Highest: 2}); got != want {
		t.Errorf("ratio %+v, want %+v", got, want)
	}
	got = ratio([]Number{10, unmeasured, 3, 8}, []Number{20, 2, 0, 2})
	if want := (Ratio{Median: 2.25, Lowest: 0.5, Highest: 4}); got != want {
		t.Errorf("with what was not measured, or nothing, in it: %+v, want %+v", got, want)
	}
	if got := ratio(nil, nil); got.Median.measured() || got.Lowest.measured() || got.Highest.measured() {
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
		{figure(1234567, ""), "1,234,567"},
		{figure(-1234, ""), "-1,234"},
		{figure(999.4, ""), "999"},
		{figure(12.34, ""), "12.3"},
		{figure(0.126, ""), "0.13"},
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
			free := p.free * time.Duration(2*len(levels)*p.freeRounds)
			contended := p.contended * time.Duration(2*p.contendedRounds)
			if sum := free + contended + p.held; sum > d || sum < d-time.Millisecond {
				t.Errorf("%s, %d levels: %+v takes %s", d, len(levels), p, sum)
			}
			if p.freeRounds%2 == 0 || p.contendedRounds%2 == 0 || min(p.free, p.contended, p.held) <= 0 {
				t.Errorf("%s, %d levels: %+v", d, len(levels), p)
			}
		}
	}
	if p := newPlan(Config{For: time.Minute, Levels: []int{1, 8, 64, 512}}); p.freeRounds != 5 || p.contendedRounds != 3 || p.held*2/3 < ttl {
		t.Errorf("a minute is spent as %+v; leases are to be held for longer than their TTL", p)
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
