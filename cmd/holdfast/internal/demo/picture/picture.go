// Package picture draws what happened in a demo: a hand-over, a crash and a pause, with who held the lock, who waited for it, and
// with which fences. It is an SVG that plays by itself, without scripts. Where animations are not wanted, and at the end, all of it is
// seen at once.
package picture

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/format"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history"
)

// Sizes, in pixels.
const (
	width      = 880
	left       = 90 // of the lanes, beside the workers' names
	lanesWidth = width - left - 20
	lane       = 24
	top        = 50 // of the first scene
	heading    = 44 // of a scene
	footing    = 54 // of a scene: times and the moment
)

// How long it plays, in percent of a cycle. The rest shows the end.
const (
	cycle     = 30 * time.Second
	playsFor  = 70.0
	sceneRest = 3.0 // after each scene
)

// Write draws the second act of a history whose leases had this TTL. If nothing happened that could be drawn, it writes nothing and
// returns an error.
func Write(w io.Writer, h *history.History, ttl time.Duration) error {
	if len(h.Events) == 0 {
		return errors.New("nothing has happened that could be drawn")
	}
	scenes := scenesOf(h, ttl)
	if len(scenes) == 0 {
		return errors.New("nothing has happened that could be drawn: no hand-over and no accident")
	}
	workers := 0
	for _, e := range h.Events {
		workers = max(workers, e.Worker)
	}
	p := &painter{workers: workers, scenes: scenes}
	p.paint()
	_, err := w.Write(p.body.Bytes())
	return err
}

// painter draws scenes below each other.
type painter struct {
	workers int
	scenes  []*scene
	body    bytes.Buffer
	rules   bytes.Buffer // of style, for what moves
}

func (p *painter) printf(format string, args ...any) { fmt.Fprintf(&p.body, format, args...) }

// sceneHeight is that of a scene and the space below it.
func (p *painter) sceneHeight() int { return heading + p.workers*lane + footing }

func (p *painter) paint() {
	var all bytes.Buffer
	var told []string
	for i, s := range p.scenes {
		p.scene(i, s)
		told = append(told, s.title+": "+s.caption)
	}
	height := top + len(p.scenes)*p.sceneHeight()
	fmt.Fprintf(&all, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title told">
<title id="title">holdfast demo: what the processes recorded</title>
<desc id="told">%s</desc>
<style>%s%s}</style>
<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="holds" width="2.5" height="6"/></pattern></defs>
<rect class="ground" width="%[1]d" height="%[2]d" rx="8"/>
`, width, height, width, height, html.EscapeString(strings.Join(told, " ")), style, p.rules.String())
	fmt.Fprint(&all, legend)
	all.Write(p.body.Bytes())
	all.WriteString("</svg>\n")
	p.body = all
}

// Rules for what moves are within a media query that paint closes.
const style = `
text{font:13px ui-sans-serif,system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.ground{fill:#fff;stroke:#d1d9e0}.curtain{fill:#fff}
.title{font-weight:600;font-size:15px}.dim{fill:#59636e}.tick{fill:#59636e;font-size:11px}.line{stroke:#d1d9e0}
.fence{fill:#fff;font-size:11px}.bad{fill:#cf222e}.good{fill:#1a7f37}.bad,.good{font-weight:600;stroke:#fff;stroke-width:4px;stroke-linejoin:round;paint-order:stroke}
.holds{fill:#0969da}.waits{fill:#afb8c1}.lease{fill:url(#hatch);stroke:#0969da}.dead{fill:#cf222e}.paused{fill:#bf8700}
.head{stroke:#cf222e;stroke-width:1.5;opacity:0}.moment{opacity:0}.last{opacity:1}
.curtain{transform:scaleX(0);transform-box:fill-box;transform-origin:100% 50%}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}.ground{fill:#0d1117;stroke:#3d444d}.curtain{fill:#0d1117}
.dim,.tick{fill:#9198a1}.line{stroke:#3d444d}.fence{fill:#fff}.bad{fill:#f85149}.good{fill:#3fb950}.bad,.good{stroke:#0d1117}
.holds{fill:#1f6feb}.waits{fill:#656c76}.lease{stroke:#1f6feb}.dead{fill:#f85149}.paused{fill:#d29922}.head{stroke:#f85149}
}
@media (prefers-reduced-motion:no-preference){
`

const legend = `<rect class="holds" x="20" y="18" width="26" height="14" rx="2"/><text x="52" y="30">holds the lock, with its fence</text>
<rect class="waits" x="252" y="23" width="26" height="4"/><text x="284" y="30">waits in the queue</text>
<rect class="lease" x="424" y="18" width="26" height="14" rx="2"/><text x="456" y="30">its lease goes on without it</text>
<rect class="dead" x="650" y="23" width="26" height="4"/><text x="682" y="30">killed</text>
<rect class="paused" x="744" y="23" width="26" height="4"/><text x="776" y="30">paused</text>
`

func (p *painter) scene(i int, s *scene) {
	y := top + i*p.sceneHeight()
	lanes := y + heading
	bottom := lanes + p.workers*lane
	x := func(at history.Instant) float64 {
		return left + lanesWidth*float64(at.Sub(s.from))/float64(s.to.Sub(s.from))
	}
	p.printf("<text class=\"title\" x=\"20\" y=\"%d\">%s</text><text class=\"dim\" x=\"20\" y=\"%d\">%s</text>\n", y+14, s.title, y+33, html.EscapeString(s.caption))
	for n := 1; n <= p.workers; n++ {
		middle := lanes + n*lane - lane/2
		p.printf("<text class=\"dim\" x=\"20\" y=\"%d\">worker %d</text><line class=\"line\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%[4]d\"/>\n", middle+4, n, left, middle, left+lanesWidth)
	}
	p.times(s, bottom, x)
	for _, k := range []kind{waits, holds, lease, dead, paused} { // the later ones are drawn over the earlier
		for _, one := range s.spans {
			if one.kind == k {
				p.span(one, lanes, x)
			}
		}
	}
	for _, m := range s.marks {
		p.mark(m, lanes, x(m.at))
	}
	p.motion(i, s, lanes, bottom)
}

// span draws what a worker does for some time.
func (p *painter) span(s span, lanes int, x func(history.Instant) float64) {
	middle := lanes + s.worker*lane - lane/2
	high, from := 4, x(s.from)
	long := max(x(s.to)-from, 0.6)
	switch s.kind {
	case holds, lease:
		high = 16
	case dead, paused:
		middle += 10
	}
	p.printf("<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"", s.kind, from, middle-high/2, long, high)
	if s.kind != holds {
		p.printf("/>\n")
		return
	}
	p.printf("><title>worker %d, fence %d, %s</title></rect>\n", s.worker, s.fence, format.Duration(s.to.Sub(s.from)))
	if long >= 84 {
		p.printf("<text class=\"fence\" x=\"%.1f\" y=\"%d\">%s</text>\n", from+5, middle+4, format.Fence(s.fence))
	}
}

func (p *painter) mark(m mark, lanes int, x float64) {
	class, anchor, by := "good", "start", 4.0
	if m.bad {
		class = "bad"
	}
	if m.left {
		anchor, by = "end", -4
	}
	p.printf("<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%d\">%s</text>\n", class, anchor, x+by, lanes+m.worker*lane-lane/2+5, html.EscapeString(m.text))
}

// times draws an axis with about eight times, counted from the scene's begin.
func (p *painter) times(s *scene, y int, x func(history.Instant) float64) {
	step := stepFor(s.to.Sub(s.from))
	for t := time.Duration(0); t <= s.to.Sub(s.from); t += step {
		at, text := x(s.from.Add(t)), "0"
		if t > 0 {
			text = format.Duration(t)
		}
		p.printf("<line class=\"line\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1[1]f\" y2=\"%[3]d\"/><text class=\"tick\" text-anchor=\"middle\" x=\"%.1[1]f\" y=\"%[4]d\">%[5]s</text>\n",
			at, y, y+4, y+16, text)
	}
}

// stepFor returns a round time that goes into another four to ten times.
func stepFor(whole time.Duration) time.Duration {
	for unit := time.Microsecond; ; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if step := n * unit; whole/step <= 10 {
				return step
			}
		}
	}
}

// motion animates a scene: a curtain opens from left to right, and below it one moment is described after another.
func (p *painter) motion(i int, s *scene, lanes, bottom int) {
	part := playsFor / float64(len(p.scenes))
	begins, ends := float64(i)*part, float64(i+1)*part-sceneRest
	p.printf("<rect class=\"curtain\" id=\"curtain%d\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", i, left, lanes-2, lanesWidth+18, bottom-lanes+2)
	p.printf("<line class=\"head\" id=\"head%d\" x1=\"%d\" y1=\"%d\" x2=\"%[2]d\" y2=\"%[4]d\"/>\n", i, left, lanes-2, bottom)
	wide := float64(lanesWidth)
	p.rule("curtain", i, "linear", fmt.Sprintf("0%%,%.2f%%{transform:scaleX(1)}%.2f%%,100%%{transform:scaleX(0)}", begins, ends))
	p.rule("head", i, "linear", fmt.Sprintf("0%%,%.2f%%{opacity:0;transform:translateX(0)}%.2f%%{opacity:1;transform:translateX(0)}%.2f%%{opacity:1;transform:translateX(%.0[4]fpx)}%.2f%%,100%%{opacity:0;transform:translateX(%.0[4]fpx)}",
		begins, begins+0.01, ends, wide, ends+0.01))
	all := s.moments()
	for n, m := range all {
		at := func(t history.Instant) float64 {
			return begins + (ends-begins)*float64(t.Sub(s.from))/float64(s.to.Sub(s.from))
		}
		last, until := "", ""
		if n+1 == len(all) {
			last = " last"
		} else {
			until = fmt.Sprintf("%.2f%%{opacity:0}", at(all[n+1].at))
		}
		p.printf("<text class=\"moment%s\" id=\"moment%d_%d\" x=\"%d\" y=\"%d\">%s</text>\n", last, i, n, left, bottom+34, html.EscapeString(m.text))
		p.rule(fmt.Sprintf("moment%d_", i), n, "step-end", fmt.Sprintf("0%%{opacity:0}%.2f%%{opacity:1}%s", at(m.at), until))
	}
}

// rule gives an element its animation.
func (p *painter) rule(name string, i int, timing, keyframes string) {
	fmt.Fprintf(&p.rules, "#%s%d{animation:%[1]s%[2]d %.0[3]fs %[4]s infinite}@keyframes %[1]s%[2]d{%[5]s}\n", name, i, cycle.Seconds(), timing, keyframes)
}
