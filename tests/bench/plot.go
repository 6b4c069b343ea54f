package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

// colours are those of the lines. Holdfast's lines are solid, the others dashed.
var colours = []string{"#0b6e4f", "#08a045", "#c1121f", "#e36414", "#fb8b24", "#5f0f40", "#3a0ca3", "#4361ee", "#577590"}

// plot returns an SVG image of the free cells' rates by the number of goroutines, on logarithmic scales.
func plot(r results) string {
	const (
		width, height            = 860, 480
		left, right, top, bottom = 70, 610, 20, 430
	)
	lowest, highest := math.Inf(1), 0.0
	for _, n := range levels {
		for _, f := range r[freeCell(n)] {
			if f["rate"] > 0 {
				lowest, highest = min(lowest, f["rate"]), max(highest, f["rate"])
			}
		}
	}
	from, to := math.Floor(math.Log10(lowest)), math.Ceil(math.Log10(highest))
	last := math.Log2(float64(levels[len(levels)-1]))
	x := func(goroutines int) float64 { return left + (right-left)*math.Log2(float64(goroutines))/last }
	y := func(rate float64) float64 { return bottom - (bottom-top)*(math.Log10(rate)-from)/max(to-from, 1) }

	var svg strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&svg, format+"\n", args...) }
	say(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, width, height)
	say(`<rect width="100%%" height="100%%" fill="white"/>`)
	for decade := from; decade <= to; decade++ {
		at := y(math.Pow(10, decade))
		say(`<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`, left, at, right, left-6, at+4, measure.Figure(math.Pow(10, decade)))
	}
	for _, n := range levels {
		say(`<path d="M%.1f %dV%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%d</text>`, x(n), top, bottom, x(n), bottom+16, n)
	}
	say(`<text x="%d" y="%d" text-anchor="middle">goroutines, each with a lock of its own</text>`, (left+right)/2, bottom+36)
	say(`<text transform="translate(14 %d) rotate(-90)" text-anchor="middle">cycles/s</text>`, (top+bottom)/2)
	line := 0
	for _, c := range contestants {
		if !r[freeCell(levels[0])][c.name].measured() {
			continue
		}
		var points []string
		for _, n := range levels {
			if rate := r[freeCell(n)][c.name]["rate"]; rate > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(n), y(rate)))
			}
		}
		style := fmt.Sprintf(`fill="none" stroke="%s" stroke-width="2"`, colours[line%len(colours)])
		switch c.role {
		case floor:
			style += ` stroke-dasharray="7 4"`
		case peer, outside:
			style += ` stroke-dasharray="2 3"`
		}
		at := top + 20 + 22*line
		say(`<polyline points="%s" %s/>`, strings.Join(points, " "), style)
		say(`<path d="M%d %dh36" %s/><text x="%d" y="%d">%s</text>`, right+24, at, style, right+68, at+4, c.name)
		line++
	}
	say(`</svg>`)
	return svg.String()
}
