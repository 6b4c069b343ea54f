package main

import (
	"fmt"
	"io"
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

// write writes the tables.
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
		all = append(all, fmt.Sprintf("%s %d×%v", c.name, c.rounds, c.time))
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
