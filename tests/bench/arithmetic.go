package main

import (
	"cmp"
	"math"
	"slices"
)

// median is the middle of the values, the mean of the two in the middle if there are as many
// on both sides, and 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile is the smallest value that at least p percent of the values do not exceed
// (the nearest rank), and 0 if there are none.
func percentile[T cmp.Ordered](values []T, p float64) (value T) {
	if len(values) == 0 {
		return value
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// figures are what one turn measured, by name; or the medians of several.
type figures map[string]float64

// measured is false where there was no turn, or none that came to its end.
func (f figures) measured() bool { return f["rate"] > 0 }

// summary has the median of each figure over the rounds, and of what must not happen the sum.
func summary(rounds []figures) figures {
	all := map[string][]float64{}
	for _, round := range rounds {
		for name, value := range round {
			all[name] = append(all[name], value)
		}
	}
	result := figures{}
	for name, values := range all {
		if slices.Contains(faults, name) {
			for _, v := range values {
				result[name] += v
			}
			continue
		}
		result[name] = median(values)
	}
	return result
}

// rotated is the order of a round: everybody is first once in as many rounds as there are
// contestants.
func rotated[T any](all []T, round int) []T {
	if len(all) == 0 {
		return nil
	}
	first := round % len(all)
	return slices.Concat(all[first:], all[:first])
}
