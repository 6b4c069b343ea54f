package measure

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{7}, 7}, {[]float64{9, 1, 4}, 4}, {[]float64{8, 1, 2, 100}, 5},
	} {
		before := fmt.Sprint(c.values)
		if got := Median(c.values); got != c.want {
			t.Errorf("median of %v: got %v; want %v", c.values, got, c.want)
		}
		if after := fmt.Sprint(c.values); after != before {
			t.Errorf("Median reordered %s to %s", before, after)
		}
	}
	if got := Median[float64](nil); !math.IsNaN(got) {
		t.Errorf("median of nothing: got %v; want NaN", got)
	}
}

func TestPercentiles(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for _, c := range []struct {
		values []int
		p      float64
		want   int
	}{
		{nil, 50, 0}, {[]int{3}, 99, 3}, {[]int{3}, 0, 3}, {[]int{5, 1}, 50, 1}, {[]int{5, 1}, 51, 5},
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 99.5, 100}, {hundred, 100, 100},
	} {
		if got := Percentiles(c.values, c.p)[0]; got != c.want {
			t.Errorf("%v%% of %v: got %v; want %v", c.p, c.values, got, c.want)
		}
	}
	if got := fmt.Sprint(Percentiles(hundred, 50, 99)); got != "[50 99]" || hundred[0] != 100 {
		t.Errorf("got %s; the first value is %d, want 100", got, hundred[0])
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		got  []int
		want float64
	}{
		{[]int{7, 7, 7}, 1}, {[]int{5, 0, 0, 0}, 0.25}, {[]int{3, 1}, 0.8}, {[]int{0, 0}, 0}, {nil, 0},
	} {
		if got := Jain(c.got); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("index of %v: got %v; want %v", c.got, got, c.want)
		}
	}
}

func TestEverybodyIsFirstOnce(t *testing.T) {
	var rounds []string
	for round := range 4 {
		rounds = append(rounds, fmt.Sprint(Rotated([]string{"a", "b", "c"}, round)))
	}
	if got, want := fmt.Sprint(rounds), "[[a b c] [b c a] [c a b] [a b c]]"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.123: "0.12", 9.5: "9.50", 12.34: "12.3", 999.4: "999", 1234: "1,234", 1234567.8: "1,234,568", 64: "64", -1234: "-1,234",
	} {
		if got := Figure(v); got != want {
			t.Errorf("%v: got %s; want %s", v, got, want)
		}
	}
}

// A goroutine that fails stops alone. A cycle that returns false is not counted.
func TestSpin(t *testing.T) {
	failed := errors.New("failed")
	var good, skipped, bad atomic.Int64
	spun := Spin(20*time.Millisecond, true, []func() (bool, error){
		func() (bool, error) { good.Add(1); time.Sleep(time.Millisecond); return true, nil },
		func() (bool, error) { skipped.Add(1); time.Sleep(time.Millisecond); return false, nil },
		func() (bool, error) { bad.Add(1); return true, failed },
	})
	if spun.Cycles != int(good.Load()) || len(spun.Latencies) != spun.Cycles || spun.Cycles == 0 || skipped.Load() == 0 {
		t.Errorf("%d cycles with %d latencies, of %d good and %d skipped ones", spun.Cycles, len(spun.Latencies), good.Load(), skipped.Load())
	}
	if len(spun.Errs) != 1 || !errors.Is(spun.Errs[0], failed) || bad.Load() != 1 {
		t.Errorf("errors %v after %d calls", spun.Errs, bad.Load())
	}
	if spun.Took < 20*time.Millisecond {
		t.Errorf("it took %s", spun.Took)
	}
	untimed := Spin(0, false, []func() (bool, error){func() (bool, error) { return true, nil }})
	if untimed.Cycles == 0 || untimed.Latencies != nil {
		t.Errorf("%+v in no time; want at least one cycle, not timed", untimed)
	}
}

func TestInParallelStopsAfterAnError(t *testing.T) {
	var sum atomic.Int64
	if err := InParallel(4, 100, func(i int) error { sum.Add(int64(i)); return nil }); err != nil || sum.Load() != 4950 {
		t.Errorf("sum %d, %v", sum.Load(), err)
	}
	failed := errors.New("failed")
	calls := 0
	if err := InParallel(1, 100, func(i int) error {
		calls++
		if i == 3 {
			return failed
		}
		return nil
	}); !errors.Is(err, failed) || calls != 4 {
		t.Errorf("%d calls, %v", calls, err)
	}
}
