package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

// surroundings are what the figures depend on, besides the contestants.
type surroundings struct {
	began                 time.Time
	took                  time.Duration
	server                string
	redisson              string   // its version; "" if it had no turn
	missing               []string // who was not measured, and why
	loadBefore, loadAfter string
}

// leaveOut reports, loudly, that a contestant is not measured for a reason; "" is none.
func (s *surroundings) leaveOut(stderr io.Writer, who, reason string) {
	if reason == "" {
		return
	}
	fmt.Fprintf(stderr, "\n!!! %s is NOT MEASURED: %s\n\n", who, reason)
	s.missing = append(s.missing, fmt.Sprintf("%s was not measured: %s", who, reason))
}

// load returns the machine's load average over a minute, if the system has it.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

func write(w io.Writer, about surroundings, o options, r results) {
	clients := versions()
	if about.redisson != "" {
		clients = append(clients, about.redisson)
	}
	fmt.Fprintf(w, "%s with %s, %s; %d processors; load %s before and %s after; %v; %s.\n", runtime.Version(),
		about.server, strings.Join(clients, ", "), runtime.NumCPU(), about.loadBefore, about.loadAfter,
		about.took.Round(time.Second), strings.Join(rounds(o), ", "))
	for _, what := range about.missing {
		fmt.Fprintf(w, "\n**%s.**\n", what)
	}
	for _, t := range tables(r) {
		t.write(w, r)
	}
	writeFaults(w, o, r)
	writeRatios(w, o, r)
	fmt.Fprintln(w)
}

// versions returns the versions of the clients and the peers.
func versions() (all []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, m := range info.Deps {
		for _, path := range []string{"github.com/redis/go-redis/v9", "github.com/redis/rueidis", "github.com/go-redsync/redsync/v4", "github.com/bsm/redislock", "go.etcd.io/etcd/client/v3"} {
			if m.Path == path {
				all = append(all, strings.TrimPrefix(path, "github.com/")+" "+m.Version)
			}
		}
	}
	return all
}

func rounds(o options) (all []string) {
	for _, c := range o.cells {
		all = append(all, fmt.Sprintf("%s %d×%v", c.name, c.rounds, c.For))
	}
	return all
}

// of is a text about a contestant's results.
type of func(r results, who string) string

// plainly writes a figure of a cell, divided by unit.
func plainly(cell, figure string, unit float64) of {
	return func(r results, who string) string { return measure.Figure(r[cell][who][figure] / unit) }
}

// known is plainly for a figure that may not have been measured.
func known(cell, figure string) of {
	return func(r results, who string) string {
		if _, is := r[cell][who][figure]; !is {
			return ""
		}
		return plainly(cell, figure, 1)(r, who)
	}
}

// index writes Jain's index.
func index(cell string) of {
	return func(r results, who string) string { return fmt.Sprintf("%.3f", r[cell][who]["jain"]) }
}

// rate writes a cell's rate, and other figures in parentheses.
func rate(cell string, others ...string) of {
	return func(r results, who string) string {
		f := r[cell][who]
		if !f.measured() {
			return ""
		}
		var texts []string
		for _, name := range others {
			texts = append(texts, measure.Figure(f[name]))
		}
		return fmt.Sprintf("%s (%s)", measure.Figure(f["rate"]), strings.Join(texts, " + "))
	}
}

// rateCPU is rate with the processor time of a cycle.
func rateCPU(cell string) of { return rate(cell, "redis_us", "client_us") }

// table is a table in Markdown. It has a row for each contestant that was measured in one of its cells, and is not written if
// there is none.
type table struct {
	head  []string
	cells []string
	texts []of
}

func (t *table) add(head string, text of) {
	t.head, t.texts = append(t.head, head), append(t.texts, text)
}

// figures adds columns of one cell, named as in HEAD=FIGURE. A figure that ends with /1e3 is in µs, and is shown in ms.
func (t *table) figures(cell string, columns ...string) *table {
	for _, column := range columns {
		head, figure, _ := strings.Cut(column, "=")
		unit := 1.0
		if us, is := strings.CutSuffix(figure, "/1e3"); is {
			figure, unit = us, 1e3
		}
		t.add(head, plainly(cell, figure, unit))
	}
	return t
}

func tables(r results) (all []*table) {
	begin := func(head string, cells ...string) *table {
		t := &table{head: []string{head}, cells: cells}
		all = append(all, t)
		return t
	}

	t := begin("free: cycles/s (CPU µs of Redis + of the client)", freeCell(levels[0]))
	for _, n := range levels {
		t.add(strconv.Itoa(n), rateCPU(freeCell(n)))
	}
	t.figures(freeCell(1), "p50 alone, µs=p50_us").add("allocations", known(freeCell(64), "allocs"))

	for _, trip := range roundTrips {
		t := begin(fmt.Sprintf("far, %v: cycles/s (p50 of a cycle, µs)", trip))
		for _, n := range farLevels {
			t.cells = append(t.cells, farCell(trip, n))
			t.add(strconv.Itoa(n), rate(farCell(trip, n), "p50_us"))
		}
	}

	t = begin("contended", "contended").figures("contended", "hand-over p50, µs=handover_us", "p99, µs=handover99_us",
		"wait p99, ms=wait99_us/1e3", "longest, ms=longest_us/1e3")
	t.add("Jain", index("contended"))
	t.figures("contended", "cycles/s=rate", "Redis CPU, µs=redis_us", "client CPU, µs=client_us", "commands=commands")

	begin("one process", "one").figures("one", "cycles/s=rate", "Redis CPU, µs=redis_us", "client CPU, µs=client_us", "commands=commands")

	begin("observed, 64 goroutines", observedCell).figures(observedCell,
		"cycles/s=rate", "Redis CPU, µs=redis_us", "client CPU, µs=client_us", "allocations=allocs")

	begin("held", "held").figures("held",
		"lost=lost", "goroutines=goroutines", "heap bytes a lease=lease_heap", "stack bytes a lease=lease_stack",
		"Redis CPU a lock, µs=redis_us", "client CPU a lock, µs=client_us")

	t = begin("read: cycles/s (CPU µs of Redis + of the client)", readCell(1), readCell(8))
	t.add("1 process × 64", rateCPU(readCell(1)))
	t.figures(readCell(1), "commands=commands")
	t.add("8 processes × 8", rateCPU(readCell(8)))
	t.figures(readCell(8), "commands=commands")

	begin("readwrite", "readwrite").figures("readwrite",
		"cycles/s=rate", "of writers=written", "readers' wait p99, ms=wait99_us/1e3", "writers', ms=writer99_us/1e3",
		"longest, ms=longest_us/1e3", "Redis CPU, µs=redis_us", "client CPU, µs=client_us", "commands=commands")

	t = begin("quorum of 5: cycles/s (CPU µs of all Redis + of the client)", quorumCell(1), quorumCell(64))
	t.add("1", rateCPU(quorumCell(1)))
	t.figures(quorumCell(1), "p50 alone, µs=p50_us").add("64", rateCPU(quorumCell(64)))
	t.figures(quorumCell(64), "commands=commands")

	begin("Cluster of 3, 512 goroutines", clusterCell).figures(clusterCell,
		"cycles/s=rate", "CPU µs of all Redis=redis_us", "of the client=client_us", "commands=commands", "allocations=allocs")

	t = begin("crowd: cycles/s (CPU µs of Redis + of the client)")
	largest := ""
	for _, n := range crowdLevels {
		if largest = crowdCell(n); r[largest] != nil {
			t.cells = append(t.cells, largest)
			t.add(strconv.Itoa(n), rateCPU(largest))
		}
	}
	if len(t.cells) > 0 {
		largest = t.cells[len(t.cells)-1]
	}
	t.add("Jain", index(largest))
	t.add("commands", known(largest, "commands"))

	begin("memory of the server", "memory").figures("memory", "bytes of a held lock=stored")

	t = begin("queue: time of a script, µs: p50 (p99)", "queue")
	for _, depth := range queueDepths {
		for _, step := range queueSteps {
			t.add(fmt.Sprintf("%s, %d waiters", step, depth), func(r results, who string) string {
				f := r["queue"][who]
				return fmt.Sprintf("%s (%s)", measure.Figure(f[queueFigure(step, depth, 50)]), measure.Figure(f[queueFigure(step, depth, 99)]))
			})
		}
	}
	return all
}

func (t *table) write(w io.Writer, r results) {
	var rows [][]string
	for _, c := range contestants {
		if !slices.ContainsFunc(t.cells, func(cell string) bool { return r[cell][c.name].measured() }) {
			continue
		}
		row := []string{c.name}
		for _, text := range t.texts {
			row = append(row, text(r, c.name))
		}
		rows = append(rows, row)
	}
	writeTable(w, t.head, rows)
}

// writeFaults lists overlaps, errors and lost leases.
func writeFaults(w io.Writer, o options, r results) {
	fmt.Fprintln(w)
	none := true
	for _, c := range o.cells {
		for _, who := range contestants {
			f := r[c.name][who.name]
			for _, fault := range faults {
				if f[fault] > 0 {
					none = false
					fmt.Fprintf(w, "- %s: **%s: %.0f %s**\n", c.name, who.name, f[fault], fault)
				}
			}
		}
	}
	if none {
		fmt.Fprintln(w, "No overlaps, no errors, no lease lost.")
	}
}

// writeTable writes nothing if there are no rows.
func writeTable(w io.Writer, head []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	line := func(cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	fmt.Fprintln(w)
	line(head)
	line(slices.Concat([]string{"---"}, slices.Repeat([]string{"---:"}, len(head)-1)))
	for _, row := range rows {
		line(row)
	}
}

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
