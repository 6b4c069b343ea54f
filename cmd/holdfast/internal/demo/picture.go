package demo

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

// Sizes, in pixels.
const (
	width      = 880
	left       = 90 // of the lanes, beside the workers' names
	lanesWidth = width - left - 20
	lane       = 24
	top        = 50 // of the first scene
	heading    = 44 // of a scene
	footing    = 30 // of a scene: times
)

// Times of the animation.
const (
	cycle     = 30 * time.Second
	playsFor  = 70.0 // percent of a cycle; then the end is shown
	sceneRest = 3.0  // percent of a cycle, after each scene
)

var (
	// style ends inside a media query, which picture continues with the animation's rules.
	//go:embed picture.css
	style string
	//go:embed legend.svg
	legend string
)

// picture returns an SVG of the second act: a hand-over, a crash and a pause, with who held the lock, who waited for it, and with which
// fences. The SVG plays by itself, without scripts. At the end, or if the viewer prefers reduced motion, it shows everything. If nothing
// happened that could be drawn, picture returns an error.
func picture(h *History) ([]byte, error) {
	a := newAct(h)
	if len(a.scenes) == 0 {
		return nil, errors.New("nothing has happened that could be drawn: no hand-over and no accident")
	}
	p := &painter{act: a}
	for _, e := range h.Events {
		p.workers = max(p.workers, e.Worker)
	}
	var told []string
	for i, s := range a.scenes {
		p.scene(i, s)
		told = append(told, s.title+": "+s.caption)
	}
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d"
 role="img" aria-labelledby="title told">
<title id="title">holdfast demo: what the processes recorded</title>
<desc id="told">%[3]s</desc>
<style>%[4]s%[5]s}</style>
<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">`+
		`<rect class="holds" width="2.5" height="6"/></pattern></defs>
<rect class="ground" width="%[1]d" height="%[2]d" rx="8"/>
%[6]s%[7]s</svg>
`, width, top+len(a.scenes)*p.sceneHeight(), html.EscapeString(strings.Join(told, " ")), style, &p.rules, legend, &p.body), nil
}

type painter struct {
	*act
	workers int
	body    bytes.Buffer
	rules   bytes.Buffer // the animation's rules of style
}

func (p *painter) printf(format string, args ...any) { fmt.Fprintf(&p.body, format, args...) }

func (p *painter) text(class string, x float64, y int, text string) {
	p.printf("<text class=%q x=\"%.1f\" y=\"%d\">%s</text>\n", class, x, y, html.EscapeString(text))
}

func (p *painter) line(attributes string, x1 float64, y1 int, x2 float64, y2 int) {
	p.printf("<line %s x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n", attributes, x1, y1, x2, y2)
}

func (p *painter) rect(attributes string, x float64, y int, width float64, height int) {
	p.printf("<rect %s x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", attributes, x, y, width, height)
}

func (p *painter) sceneHeight() int { return heading + p.workers*lane + footing }

func (p *painter) scene(i int, s scene) {
	y := top + i*p.sceneHeight()
	lanes := y + heading
	bottom := lanes + p.workers*lane
	x := func(at Instant) float64 {
		return left + lanesWidth*float64(at-s.from)/float64(s.to-s.from)
	}
	p.text("title", 20, y+14, s.title)
	p.text("dim", 20, y+33, s.caption)
	for n := 1; n <= p.workers; n++ {
		middle := lanes + n*lane - lane/2
		p.text("dim", 20, middle+4, fmt.Sprint("worker ", n))
		p.line(`class="line"`, left, middle, left+lanesWidth, middle)
	}
	p.times(s, bottom, x)
	for _, k := range []kind{waits, holds, lease, dead, paused} { // later kinds cover earlier ones
		for _, one := range p.spans {
			if one, shown := s.within(one); shown && one.kind == k {
				p.span(one, lanes, x)
			}
		}
	}
	for _, m := range p.marks {
		if s.from <= m.at && m.at <= s.to {
			p.mark(m, lanes, x(m.at))
		}
	}
	p.motion(i, lanes, bottom)
}

func (p *painter) span(s span, lanes int, x func(Instant) float64) {
	middle := lanes + s.worker*lane - lane/2
	high, from := 4, x(s.from)
	long := max(x(s.to)-from, 0.6)
	switch s.kind {
	case holds, lease:
		high = 16
	case dead, paused:
		middle += 10
	}
	p.rect(fmt.Sprintf("class=%q", s.kind), from, middle-high/2, long, high)
	if s.kind == holds && long >= 84 {
		p.text("fence", from+5, middle+4, Fence(s.fence))
	}
}

func (p *painter) mark(m mark, lanes int, x float64) {
	class, by := "good", 4.0
	if m.bad {
		class = "bad"
	}
	if m.left {
		class, by = class+" end", -4
	}
	p.text(class, x+by, lanes+m.worker*lane-lane/2+5, m.text)
}

// times draws an axis with about eight times, counted from the beginning of the scene.
func (p *painter) times(s scene, y int, x func(Instant) float64) {
	step := stepFor(s.to - s.from)
	for t := time.Duration(0); t <= s.to-s.from; t += step {
		at, text := x(s.from+t), "0"
		if t > 0 {
			text = console.Duration(t)
		}
		p.line(`class="line"`, at, y, at, y+4)
		p.text("tick", at, y+16, text)
	}
}

// stepFor returns a round time that is a tenth to a quarter of whole.
func stepFor(whole time.Duration) time.Duration {
	for unit := time.Microsecond; ; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if step := n * unit; whole/step <= 10 {
				return step
			}
		}
	}
}

// motion animates a scene: a curtain opens from left to right.
func (p *painter) motion(i, lanes, bottom int) {
	part := playsFor / float64(len(p.scenes))
	begins, ends := float64(i)*part, float64(i+1)*part-sceneRest
	p.rect(fmt.Sprintf(`class="curtain" id="curtain%d"`, i), left, lanes-2, lanesWidth+18, bottom-lanes+2)
	p.line(fmt.Sprintf(`class="head" id="head%d"`, i), left, lanes-2, left, bottom)
	rule := func(name, keyframes string) {
		fmt.Fprintf(&p.rules, "#%s%d{animation:%[1]s%[2]d %.0[3]fs linear infinite}@keyframes %[1]s%[2]d{%[4]s}\n",
			name, i, cycle.Seconds(), keyframes)
	}
	rule("curtain", fmt.Sprintf("0%%,%.2f%%{transform:scaleX(1)}%.2f%%,100%%{transform:scaleX(0)}", begins, ends))
	rule("head", fmt.Sprintf("0%%,%.2f%%{opacity:0}%.2f%%{opacity:1;transform:translateX(0)}%.2f%%{opacity:1;transform:translateX(%[4]dpx)}"+
		"%.2[5]f%%,100%%{opacity:0;transform:translateX(%[4]dpx)}", begins, begins+0.01, ends, lanesWidth, ends+0.01))
}
