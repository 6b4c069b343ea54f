package main

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// board is memory that all processes of a turn share. It notices overlaps, and how long the lock takes from one holder to
// the next, without asking the server.
type board struct {
	inside   atomic.Int64 // holders; a reader counts 1, any other counts exclusive
	over     atomic.Int64 // 1 when the turn is over: acquires that are then cancelled may overlap
	waiting  atomic.Int64 // goroutines
	released atomic.Int64 // when the last holder called release; 0 if nobody was waiting then
	overlaps atomic.Int64 // grants beside another holder, unless both are readers
	cycles   atomic.Int64 // the contestant in Java does not count them
}

const boardSize = 6 * 8

// exclusive is more than any number of readers.
const exclusive = 1 << 32

// share is what a holder counts.
func share(reads bool) int64 {
	if reads {
		return 1
	}
	return exclusive
}

// enter is called by a new holder. It returns how long ago the last holder called release, if somebody was waiting then.
func (b *board) enter(reads bool) (handover time.Duration, ok bool) {
	now, mine := history.Now(), share(reads)
	inside := b.inside.Add(mine)
	if inside != mine && (mine == exclusive || inside >= exclusive) && b.over.Load() == 0 {
		b.overlaps.Add(1)
	}
	released := b.released.Swap(0)
	return time.Duration(now - released), released != 0 && inside == mine
}

// leave is called by a holder just before it releases.
func (b *board) leave(reads bool) {
	b.cycles.Add(1)
	if b.inside.Add(-share(reads)) == 0 && b.waiting.Load() > 0 {
		b.released.Store(history.Now())
	}
}

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
		for _, figure := range weighed[cell.Kind] {
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
