package measure

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"
)

// Median returns the middle value, or the mean of the two middle values. It is NaN if there are no values.
func Median[T ~float64](values []T) T {
	if len(values) == 0 {
		return T(math.NaN())
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Percentiles returns for each p the smallest value that at least p percent of the values do not exceed (the nearest
// rank). They are zero if there are no values.
func Percentiles[T cmp.Ordered](values []T, ps ...float64) []T {
	found := make([]T, len(ps))
	if len(values) == 0 {
		return found
	}
	sorted := slices.Sorted(slices.Values(values))
	for i, p := range ps {
		rank := int(math.Ceil(p / 100 * float64(len(sorted))))
		found[i] = sorted[min(max(rank, 1), len(sorted))-1]
	}
	return found
}

// Jain returns Jain's index of fairness: 1 if all got the same, 1/n if one of n got everything, 0 if nobody got anything.
func Jain(got []int) float64 {
	var sum, squares float64
	for _, n := range got {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(got)) * squares)
}

// Rotated returns the order of a round: all, beginning with another one than in the round before.
func Rotated[T any](all []T, round int) []T {
	if len(all) == 0 {
		return nil
	}
	first := round % len(all)
	return slices.Concat(all[first:], all[:first])
}

// Micros converts to microseconds.
func Micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// Figure formats a number with about three digits, and separates thousands.
func Figure(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		digits := strconv.FormatFloat(v, 'f', 0, 64)
		for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
			digits = digits[:i] + "," + digits[i:]
		}
		return digits
	case a >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
