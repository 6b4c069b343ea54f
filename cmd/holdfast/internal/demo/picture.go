package demo

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html"
	"slices"
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

// act is the second act as it is drawn.
type act struct {
	h      *History
	grants []Grant
	scenes []scene
	spans  []span
	marks  []mark
}

type scene struct {
	title, caption string
	from, to       Instant
}

// kind says what a worker does during a span.
type kind string

const (
	waits  kind = "waits"  // in the queue
	holds  kind = "holds"  // the lock
	lease  kind = "lease"  // its lease outlives it
	dead   kind = "dead"   // killed
	paused kind = "paused" // stopped by a signal
)

// span is a period in which a worker does one thing.
type span struct {
	kind     kind
	worker   int
	from, to Instant
	fence    uint64
}

// mark is a word beside an instant, on its left if left is set.
type mark struct {
	worker int
	at     Instant
	text   string
	bad    bool
	left   bool
}

// newAct finds a hand-over, a crash and a pause in the history, and leaves out what did not happen.
func newAct(h *History) *act {
	a := &act{h: h, grants: h.Grants(Ledger)}
	ends := map[int]Instant{} // when accidents ended grants, by the grants' indices
	a.handover()
	for _, e := range h.Events {
		switch e.Kind {
		case Killed:
			a.crash(e, ends)
		case Paused:
			a.pause(e, ends)
		}
	}
	free := map[int]Instant{} // since when each worker has not had the lock
	for i, g := range a.grants {
		until := g.End()
		if at, befell := ends[i]; befell {
			until = at
		}
		a.spans = append(a.spans, span{waits, g.Worker, max(g.Asked, free[g.Worker]), g.At, 0}, span{holds, g.Worker, g.At, until, g.Fence})
		free[g.Worker] = until
	}
	return a
}

// within returns the part of a span that a scene shows. It returns false if the scene shows nothing of it.
func (s scene) within(p span) (span, bool) {
	p.from, p.to = max(p.from, s.from), min(p.to, s.to)
	return p, p.from < p.to
}

// handover adds a scene with a hand-over and its neighbours, if possible from before the accidents.
func (a *act) handover() {
	follows := func(i int) bool {
		return 0 < i && i < len(a.grants) && a.grants[i].FollowsDirectly(a.grants[i-1]) && a.grants[i].Worker != a.grants[i-1].Worker
	}
	accident := slices.IndexFunc(a.h.Events, func(e Event) bool { return e.Kind == Stalled })
	calm := slices.IndexFunc(a.grants, func(g Grant) bool { return accident >= 0 && g.End() >= a.h.Events[accident].At })
	i := max(calm, 0) / 2
	for ; i < len(a.grants) && !follows(i); i++ {
	}
	if i >= len(a.grants) {
		return
	}
	oldest, newest := i-1, i
	for range 2 {
		if follows(oldest) {
			oldest--
		}
		if follows(newest + 1) {
			newest++
		}
	}
	before, g := a.grants[i-1], a.grants[i]
	a.scenes = append(a.scenes, scene{"A hand-over",
		fmt.Sprintf("Worker %d releases the lock, and worker %d, the first in the queue, holds it %s later. Nobody polls.",
			before.Worker, g.Worker, console.Duration(g.At-before.Released)),
		a.grants[oldest].At, a.grants[newest].End()})
}

func (a *act) crash(e Event, ends map[int]Instant) {
	held, next := a.around(e)
	if held < 0 || next < 0 {
		return
	}
	g, after := a.grants[held], a.grants[next]
	ends[held] = e.At
	a.spans = append(a.spans,
		span{lease, e.Worker, e.At, after.At, g.Fence},
		span{dead, e.Worker, e.At, a.first(Ready, e).At, 0})
	a.marks = append(a.marks, mark{worker: e.Worker, at: e.At, text: "kill -9", bad: true})
	a.add("A crash", fmt.Sprintf("Worker %d is killed while it holds the lock. Its lease of %s ends, "+
		"and worker %d has the lock %s after the kill.",
		e.Worker, console.Duration(ttl), after.Worker, console.Duration(after.At-e.At)), g.At, after.At)
}

// pause adds a scene with a holder that sleeps past its lease, and writes when it wakes.
func (a *act) pause(e Event, ends map[int]Instant) {
	held, next := a.around(e)
	resumed := a.first(Resumed, e)
	woken, wrote := a.first(Woke, resumed), a.first(Wrote, resumed)
	if held < 0 || next < 0 || woken.Fence == 0 || wrote.Fence == 0 {
		return
	}
	said, verdict, why := "still held", "accepted", ""
	if woken.Lost {
		said = "lost"
	}
	if wrote.Refused {
		verdict, why = "refused", fmt.Sprintf(": %s < %s", Fence(wrote.Fence), Fence(wrote.Highest))
	}
	ends[held] = e.At
	a.spans = append(a.spans,
		span{lease, e.Worker, e.At, a.grants[next].At, a.grants[held].Fence},
		span{paused, e.Worker, e.At, resumed.At, 0})
	a.marks = append(a.marks,
		mark{worker: e.Worker, at: e.At, text: "kill -STOP", bad: true},
		mark{worker: e.Worker, at: wrote.At, text: "write " + verdict, bad: !wrote.Refused, left: true})
	a.add("A pause", fmt.Sprintf("Worker %d sleeps past its lease. Woken, it finds the lease %s; its write is %s%s.",
		e.Worker, said, verdict, why), a.grants[held].At, wrote.At)
}

// add adds a scene from one instant to another, with a margin on both sides.
func (a *act) add(title, caption string, from, to Instant) {
	margin := (to - from) / 20
	a.scenes = append(a.scenes, scene{title, caption, from - margin, to + margin})
}

// around returns the indices of the grant that an accident ended, and of the next grant of another worker; -1 for none.
func (a *act) around(e Event) (held, next int) {
	held = -1
	for i, g := range a.grants {
		if g.Worker == e.Worker && g.At <= e.At {
			held = i
		}
	}
	return held, slices.IndexFunc(a.grants, func(g Grant) bool { return g.Worker != e.Worker && g.At > e.At })
}

// first returns the same worker's first event of a kind after another event. If there is none, its time is a day from now.
func (a *act) first(k Kind, after Event) Event {
	for _, e := range a.h.Events {
		if e.Kind == k && e.Worker == after.Worker && e.At >= after.At {
			return e
		}
	}
	return Event{Worker: after.Worker, At: Now() + 24*time.Hour}
}
