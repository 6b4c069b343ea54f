package main

import (
	"slices"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

// figures are what a turn measured, by name, or the medians of several turns.
type figures map[string]float64

// measured reports whether there was a turn that finished.
func (f figures) measured() bool { return f["rate"] > 0 }

// summary returns the median of each figure over the rounds, and the sum of each fault.
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
		result[name] = measure.Median(values)
	}
	return result
}
