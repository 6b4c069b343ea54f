package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// lanes is the picture of the second act: a lane for each worker, time from left
// to right, and the darker the longer the worker held the lock in that time.
type lanes struct {
	history *history
	workers int
	begun   instant
	ended   instant // 0 while it goes on
}

// perColumn is the time that a column shows.
const perColumn = 200 * time.Millisecond

// What a column shows: shades for the share of its time in which the worker held
// the lock, and marks for what happened to the worker.
var shades = []rune(" ░▒▓█")

const (
	killedMark = '✗'
	deadMark   = '·'
	pausedMark = 'z'
)

// draw returns the lines of the picture.
func (l *lanes) draw(s *stage, columns int) []string {
	end := l.ended
	if end == 0 {
		end = now()
	}
	const label, count = 15, 16 // of columns, left and right
	width := max(min(columns-label-count, 80), 10)
	shown := int(end.sub(l.begun)/perColumn) + 1
	first := max(shown-width, 0) // the oldest leave the picture when it is full
	shown -= first
	from := l.begun.add(time.Duration(first) * perColumn)

	grants := l.history.grants(ledger)
	lines := []string{""}
	for worker := 1; worker <= l.workers; worker++ {
		row, total := make([]rune, shown), 0
		held := make([]time.Duration, shown)
		for _, g := range grants {
			if g.worker == worker {
				total++
				addHeld(held, g, from, end)
			}
		}
		for i, d := range held {
			row[i] = shade(d)
		}
		l.mark(row, worker, from, end)
		lines = append(lines, fmt.Sprintf("   %-10s %s%s %s", fmt.Sprintf("worker %d", worker),
			l.paint(s, row), strings.Repeat(" ", min(width, shown+1)-shown), s.dim(fmt.Sprintf("%6s turns", thousands(total)))))
	}
	return append(lines, s.dim(fmt.Sprintf("   %-10s the share of time with the lock   %c killed   %c paused", "", killedMark, pausedMark)))
}

// addHeld adds the time of a grant to the columns in which it lies.
func addHeld(held []time.Duration, g grant, from, end instant) {
	until := end
	if g.released != 0 || g.died != 0 {
		until = g.end()
	}
	for i := range held {
		left := from.add(time.Duration(i) * perColumn)
		if both := min(until, left.add(perColumn)).sub(max(g.at, left)); both > 0 {
			held[i] += both
		}
	}
}

func shade(held time.Duration) rune {
	if held <= 0 {
		return shades[0]
	}
	share := float64(held) / float64(perColumn)
	return shades[min(1+int(share*float64(len(shades)-1)), len(shades)-1)]
}

// mark writes over the columns in which a worker was dead or paused.
func (l *lanes) mark(row []rune, worker int, from, end instant) {
	since := map[kind]instant{}
	over := func(k kind, until instant, m rune) {
		for i := range row {
			left := from.add(time.Duration(i) * perColumn)
			if begin := since[k]; begin != 0 && left.add(perColumn) > begin && left < until {
				row[i] = m
			}
		}
		delete(since, k)
	}
	for _, e := range l.history.events {
		switch {
		case e.Worker != worker:
		case e.Kind == wasKilled, e.Kind == wasPaused:
			since[e.Kind] = e.At
		case e.Kind == isReady:
			over(wasKilled, e.At, deadMark)
		case e.Kind == wasResumed:
			over(wasPaused, e.At, pausedMark)
		}
	}
	over(wasKilled, end, deadMark)
	over(wasPaused, end, pausedMark)
	if i := slices.Index(row, deadMark); i >= 0 {
		row[i] = killedMark
	}
}

// paint colors a lane.
func (l *lanes) paint(s *stage, row []rune) string {
	var b strings.Builder
	for len(row) > 0 {
		n := 1
		for n < len(row) && color(row[n]) == color(row[0]) {
			n++
		}
		b.WriteString(s.style(color(row[0]), string(row[:n])))
		row = row[n:]
	}
	return b.String()
}

func color(r rune) string {
	switch r {
	case killedMark:
		return "1;31"
	case deadMark:
		return "2"
	case pausedMark:
		return "33"
	}
	return "36"
}
