package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

// weighed lists, for each kind of cell, the figures in which Holdfast is compared with the others. The aims for the ratios stand in
// docs/PERFORMANCE.md.
var weighed = map[string][]string{
	"free":      {"rate", "p50_us"},
	"far":       {"rate", "p50_us"},
	"contended": {"handover_us", "wait99_us", "longest_us", "redis_us"},
	"one":       {"rate"},
	"observed":  {"rate"},
	"held":      {"redis_us", "client_us"},
	"read":      {"rate"},
	"readwrite": {"rate", "wait99_us", "writer99_us"},
	"quorum":    {"rate", "p50_us"},
	"cluster":   {"rate"},
	"crowd":     {"rate", "redis_us"},
	"memory":    {"stored"},
}

// writeRatios lists Holdfast's figures over those of every other contestant in the cell. One with two holders at once is left out: it
// is no lock.
func writeRatios(w io.Writer, o options, r results) {
	var rows [][]string
	for _, cell := range o.cells {
		for _, figure := range weighed[cell.kind] {
			for _, us := range contestants {
				mine := r[cell.name][us.name]
				if us.role != ours || mine[figure] == 0 {
					continue
				}
				var over []string
				for _, other := range contestants {
					f := r[cell.name][other.name]
					if other.name != us.name && f[figure] > 0 && f["overlaps"] == 0 {
						over = append(over, fmt.Sprintf("%s %s", other.name, measure.Figure(mine[figure]/f[figure])))
					}
				}
				rows = append(rows, []string{fmt.Sprintf("%s, %s: %s", cell.name, figure, us.name), measure.Figure(mine[figure]), strings.Join(over, ", ")})
			}
		}
	}
	writeTable(w, []string{"Holdfast", "is", "over the others"}, rows)
}
