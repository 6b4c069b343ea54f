package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

// figure is a quantity that is measured for a way to lock.
type figure struct {
	key, title string                  // in JSON, and for people
	write      func(v float64) string  // for people
	sum        func([]float64) float64 // sums up the rounds
	compared   bool                    // whether the report has the ratio of the two ways
}

// values maps keys of figures to what was measured for one way to lock. Times are in µs. Figures that were not measured are missing.
type values map[string]float64

// set sets a value, unless it was not measured.
func (v values) set(key string, value float64) {
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		v[key] = value
	}
}

// setTimes sets the median and the 99th percentile of times.
func (v values) setTimes(p50, p99 string, times []time.Duration) {
	if len(times) > 0 {
		found := measure.Percentiles(times, 50, 99)
		v[p50], v[p99] = measure.Micros(found[0]), measure.Micros(found[1])
	}
}

// setCPU sets the processor time that was used between two readings, divided by n.
func (v values) setCPU(before, after cpu, n float64) {
	if after.server >= before.server { // less after a restart
		v.set("server_cpu_us", (after.server-before.server)/n)
	}
	v.set("client_cpu_us", (after.client-before.client)/n)
}

func sum(all []float64) (s float64) {
	for _, v := range all {
		s += v
	}
	return s
}

// Figures that count what must not happen.
var (
	lost     = figure{"lost", "lost", measure.Figure, sum, false}
	overlaps = figure{"overlaps", "overlaps", measure.Figure, sum, false}
)

// ratio compares Holdfast with the bare commands. It is computed for each round, whose two turns followed each other.
type ratio struct {
	Median  float64 `json:"median"`
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
}

// result has an experiment's figures: medians over the rounds, and for counts the sums.
type result struct {
	Experiment string           `json:"experiment"`
	Goroutines int              `json:"goroutines,omitempty"` // of free
	Leases     int              `json:"leases,omitempty"`     // of held
	Rounds     int              `json:"rounds"`
	Millis     int64            `json:"turn_ms"`
	Holdfast   values           `json:"holdfast"`
	Bare       values           `json:"bare,omitempty"`
	Ratios     map[string]ratio `json:"ratios,omitempty"`

	about   string // how it was measured, for people
	figures []figure
	rounds  [][2]values
}

func (r *result) name() string {
	if r.Goroutines > 0 {
		return fmt.Sprintf("%s, %s", r.Experiment, console.Count(r.Goroutines, "goroutine"))
	}
	return r.Experiment
}

// addFaults keeps the overlaps and losses of a round that was not completed.
func (r *result) addFaults(round [2]values) {
	for _, v := range round {
		maps.DeleteFunc(v, func(key string, _ float64) bool { return key != lost.key && key != overlaps.key })
	}
	r.rounds = append(r.rounds, round)
}

func (r *result) sumUp() {
	r.Holdfast, r.Bare, r.Ratios = values{}, values{}, map[string]ratio{}
	for _, f := range r.figures {
		var of [2][]float64
		var ratios []float64
		for _, round := range r.rounds {
			for way, v := range round {
				if value, measured := v[f.key]; measured {
					of[way] = append(of[way], value)
				}
			}
			if q := round[ours][f.key] / round[bare][f.key]; f.compared && q > 0 && !math.IsInf(q, 0) {
				ratios = append(ratios, q)
			}
		}
		for way, v := range [2]values{ours: r.Holdfast, bare: r.Bare} {
			if len(of[way]) > 0 {
				v[f.key] = f.sum(of[way])
			}
		}
		if len(ratios) > 0 {
			r.Ratios[f.key] = ratio{measure.Median(ratios), slices.Min(ratios), slices.Max(ratios)}
		}
	}
}
