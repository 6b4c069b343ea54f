package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/format"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/screen"
)

// lanes is the picture of the second act. Each worker has a lane, in which time goes from left to right. The longer the
// worker held the lock, the darker the lane.
type lanes struct {
	history *history.History
	workers int
	began   history.Instant
}

// columnTime is the time that a column shows.
const columnTime = 200 * time.Millisecond

// A column shows the share of time in which the worker held the lock, or what happened to the worker.
var shades = []rune(" ░▒▓█")

const (
	killedMark = '✗'
	deadMark   = '·'
	pausedMark = 'z'
)

func (l *lanes) Height() int { return l.workers }

func (l *lanes) Draw(s *screen.Screen, columns int) []string {
	return l.drawUntil(s, columns, history.Now())
}

func (l *lanes) drawUntil(s *screen.Screen, columns int, end history.Instant) []string {
	const label, count = 15, 16 // columns left and right of a lane
	width := max(min(columns-label-count, 80), 10)
	shown := int(end.Sub(l.began)/columnTime) + 1
	first := max(shown-width, 0) // the oldest columns leave when the picture is full
	shown -= first
	from := l.began.Add(time.Duration(first) * columnTime)

	grants := l.history.Grants(history.Ledger)
	lines := []string{""}
	for worker := 1; worker <= l.workers; worker++ {
		row, total := make([]rune, shown), 0
		held := make([]time.Duration, shown)
		for _, g := range grants {
			if g.Worker == worker {
				total++
				addHeld(held, g, from, end)
			}
		}
		for i, d := range held {
			row[i] = shade(d)
		}
		l.mark(row, worker, from, end)
		lines = append(lines, fmt.Sprintf("   %-10s %s%s %s", fmt.Sprintf("worker %d", worker),
			paint(s, row), strings.Repeat(" ", min(width, shown+1)-shown), s.Dim(fmt.Sprintf("%6s turns", format.Count(total)))))
	}
	return append(lines, s.Dim(fmt.Sprintf("   %-10s the share of time with the lock   %c killed   %c paused", "", killedMark, pausedMark)))
}

// addHeld adds the time of a grant to its columns.
func addHeld(held []time.Duration, g history.Grant, from, end history.Instant) {
	until := end
	if g.Released != 0 || g.Died != 0 {
		until = g.End()
	}
	for i := range held {
		left := from.Add(time.Duration(i) * columnTime)
		if both := min(until, left.Add(columnTime)).Sub(max(g.At, left)); both > 0 {
			held[i] += both
		}
	}
}

func shade(held time.Duration) rune {
	if held <= 0 {
		return shades[0]
	}
	share := float64(held) / float64(columnTime)
	return shades[min(1+int(share*float64(len(shades)-1)), len(shades)-1)]
}

// mark overwrites the columns in which a worker was dead or paused.
func (l *lanes) mark(row []rune, worker int, from, end history.Instant) {
	since := map[history.Kind]history.Instant{}
	over := func(k history.Kind, until history.Instant, m rune) {
		for i := range row {
			left := from.Add(time.Duration(i) * columnTime)
			if begin := since[k]; begin != 0 && left.Add(columnTime) > begin && left < until {
				row[i] = m
			}
		}
		delete(since, k)
	}
	for _, e := range l.history.Events {
		switch {
		case e.Worker != worker:
		case e.Kind == history.Killed, e.Kind == history.Paused:
			since[e.Kind] = e.At
		case e.Kind == history.Ready:
			over(history.Killed, e.At, deadMark)
		case e.Kind == history.Resumed:
			over(history.Paused, e.At, pausedMark)
		}
	}
	over(history.Killed, end, deadMark)
	over(history.Paused, end, pausedMark)
	if i := slices.Index(row, deadMark); i >= 0 {
		row[i] = killedMark
	}
}

// paint colors a lane.
func paint(s *screen.Screen, row []rune) string {
	var b strings.Builder
	for len(row) > 0 {
		n := 1
		for n < len(row) && color(row[n]) == color(row[0]) {
			n++
		}
		b.WriteString(s.Style(color(row[0]), string(row[:n])))
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
