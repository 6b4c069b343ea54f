package main

import (
	"io"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

// otherBuild ends the names of contestants that are Holdfast in another build of this program.
const otherBuild = "-other"

// contestants returns all that may take part: with -against, Holdfast also as the other build has it, next to this
// build's.
func (o options) contestants() []contestant {
	if o.against == "" {
		return contestants
	}
	var all []contestant
	for _, c := range contestants {
		all = append(all, c)
		if c.role == ours {
			c.name, c.program = c.name+otherBuild, o.against
			all = append(all, c)
		}
	}
	return all
}

// builtIn is the contestant's name in the build that it comes from.
func (c contestant) builtIn() string { return strings.TrimSuffix(c.name, otherBuild) }

// ratios returns the medians, over the rounds, of a contestant's figures in this build over those in the other. Both
// had their turns in the same round, so that what slowed a round slowed both.
func ratios(this, other []figures) figures {
	all := map[string][]float64{}
	for round := range min(len(this), len(other)) {
		for name, value := range other[round] {
			if value > 0 && this[round][name] > 0 {
				all[name] = append(all[name], this[round][name]/value)
			}
		}
	}
	result := figures{}
	for name, values := range all {
		result[name] = measure.Median(values)
	}
	return result
}

// compared are the figures that -against shows. They all cost something, except the rate.
var compared = []string{"rate", "p50_us", "handover_us", "handover99_us", "wait99_us", "redis_us", "client_us", "commands", "allocs", "lease_heap", "lease_stack"}

func writeAgainst(w io.Writer, o options, between results) {
	var rows [][]string
	for _, cell := range o.cells {
		for _, c := range contestants {
			if between[cell.name][c.name] == nil {
				continue
			}
			row := []string{cell.name + ": " + c.name}
			for _, name := range compared {
				row = append(row, known(cell.name, name)(between, c.name))
			}
			rows = append(rows, row)
		}
	}
	writeTable(w, append([]string{"this build over the other"}, compared...), rows)
}
