package bench

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/measure"
)

// Number is a figure. NaN, which JSON has as null, says that it was not measured.
type Number float64

var unmeasured = Number(math.NaN())

func (n Number) measured() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON writes five digits, or null.
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

// Ratio compares Holdfast with the bare commands. It is computed in each round, whose two turns followed each other.
type Ratio struct {
	Median  Number `json:"median"`
	Lowest  Number `json:"lowest"`
	Highest Number `json:"highest"`
}

// newRatio compares a figure round by round.
func newRatio(of, over []Number) Ratio {
	var all []Number
	for i := range min(len(of), len(over)) {
		if q := of[i] / over[i]; q.measured() {
			all = append(all, q)
		}
	}
	if len(all) == 0 {
		return Ratio{unmeasured, unmeasured, unmeasured}
	}
	return Ratio{median(all), slices.Min(all), slices.Max(all)}
}

// median is the median of those that were measured.
func median(values []Number) Number {
	return measure.Median(slices.DeleteFunc(slices.Clone(values), func(n Number) bool { return !n.measured() }))
}

// quantiles returns the median and the 99th percentile, in µs.
func quantiles(times []time.Duration) (p50, p99 Number) {
	if len(times) == 0 {
		return unmeasured, unmeasured
	}
	found := measure.Percentiles(times, 50, 99)
	return micros(found[0]), micros(found[1])
}

func micros(d time.Duration) Number { return Number(measure.Micros(d)) }

// per divides by a count.
func per(what Number, n int) Number {
	if n == 0 {
		return unmeasured
	}
	return what / Number(n)
}

// A column is a figure that results of type T have, and that is summed up by its median over the rounds, and by the
// ratio of the two ways in R.
type column[T, R any] struct {
	figure func(*T) *Number
	ratio  func(*R) *Ratio // nil if the ways are not compared
}

// sumUp sums up rounds, each with the results of both ways. Fields that are not among the columns are zero.
func sumUp[T, R any](columns []column[T, R], rounds [][2]T) (sums [2]T, ratios R) {
	for _, c := range columns {
		var values [2][]Number
		for _, round := range rounds {
			for way := range round {
				values[way] = append(values[way], *c.figure(&round[way]))
			}
		}
		for way := range values {
			*c.figure(&sums[way]) = median(values[way])
		}
		if c.ratio != nil {
			*c.ratio(&ratios) = newRatio(values[ours], values[floor])
		}
	}
	return sums, ratios
}
