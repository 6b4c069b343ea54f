package bench

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"
)

// Number is a figure; NaN, which JSON has as null, says that it was not measured.
type Number float64

var unmeasured = Number(math.NaN())

func (n Number) measured() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON gives a number no more digits than it is worth.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.measured() {
		return []byte("null"), nil
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(float64(n), 'g', 5, 64), 64)
	if err != nil {
		return nil, err
	}
	return json.Marshal(short)
}

// median is the middle of the values that were measured, the mean of the two in the middle
// where as many are on both sides.
func median(values []Number) Number {
	sorted := slices.DeleteFunc(slices.Clone(values), func(n Number) bool { return !n.measured() })
	if len(sorted) == 0 {
		return unmeasured
	}
	slices.Sort(sorted)
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// quantile is the smallest of the sorted values that at least that part of them does not
// exceed (the nearest rank). There is one at least.
func quantile[T cmp.Ordered](sorted []T, part float64) T {
	rank := int(math.Ceil(part * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// quantiles returns the median and p99, in µs. It sorts what it is given.
func quantiles(all []time.Duration) (p50, p99 Number) {
	if len(all) == 0 {
		return unmeasured, unmeasured
	}
	slices.Sort(all)
	return micros(quantile(all, 0.5)), micros(quantile(all, 0.99))
}

func micros(d time.Duration) Number { return Number(d.Nanoseconds()) / 1e3 }

// jain is Jain's index of fairness: 1 if all have got as much, 1/n if one has got all.
func jain(got []int) Number {
	var sum, squares float64
	for _, n := range got {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return unmeasured
	}
	return Number(sum * sum / (float64(len(got)) * squares))
}

// per divides; what there is none of is not measured.
func per(what Number, n int) Number {
	if n == 0 {
		return unmeasured
	}
	return what / Number(n)
}

// Ratio compares one way with the other, round by round: each pair was measured one right
// after the other.
type Ratio struct {
	Median  Number `json:"median"`
	Lowest  Number `json:"lowest"`
	Highest Number `json:"highest"`
}

// ratio is that of one figure, of as many rounds on both sides.
func ratio(of, over []Number) Ratio {
	r := Ratio{Lowest: unmeasured, Highest: unmeasured}
	var all []Number
	for i := range min(len(of), len(over)) {
		if q := of[i] / over[i]; q.measured() {
			all = append(all, q)
		}
	}
	r.Median = median(all)
	if len(all) > 0 {
		r.Lowest, r.Highest = slices.Min(all), slices.Max(all)
	}
	return r
}
