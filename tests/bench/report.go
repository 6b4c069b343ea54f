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

	"github.com/holdfast-go/holdfast/cmd/holdfast/measure"
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
func write(w io.Writer, about surroundings, o options, r results, found []standing) {
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
	writeFree(w, r)
	writeFar(w, r)
	writeContended(w, r)
	writeOne(w, r)
	writeObserved(w, r)
	writeHeld(w, r)
	writeRead(w, r)
	writeReadWrite(w, r)
	writeQuorum(w, r)
	writeCluster(w, r)
	writeCrowd(w, r)
	writeMemory(w, r)
	writeQueue(w, r)
	writeFaults(w, o, r)
	writeStandings(w, found)
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

func writeFree(w io.Writer, r results) {
	head := []string{"free: cycles/s (CPU µs of Redis + of the client)"}
	for _, n := range levels {
		head = append(head, strconv.Itoa(n))
	}
	t := table{head: append(head, "p50 alone, µs", "allocations")}
	for _, c := range contestants {
		if !r[freeCell(levels[0])][c.name].measured() {
			continue
		}
		row := []string{c.name}
		for _, n := range levels {
			row = append(row, rate(r[freeCell(n)][c.name]))
		}
		t.add(append(row, measure.Figure(r[freeCell(1)][c.name]["p50_us"]), figure(r[freeCell(64)][c.name], "allocs"))...)
	}
	t.write(w)
}

func writeFar(w io.Writer, r results) {
	for _, trip := range roundTrips {
		head := []string{fmt.Sprintf("far, %v: cycles/s (p50 of a cycle, µs)", trip)}
		for _, n := range farLevels {
			head = append(head, strconv.Itoa(n))
		}
		t := table{head: head}
		for _, c := range contestants {
			row, any := []string{c.name}, false
			for _, n := range farLevels {
				f, cell := r[farCell(trip, n)][c.name], ""
				if f.measured() {
					cell, any = fmt.Sprintf("%s (%s)", measure.Figure(f["rate"]), measure.Figure(f["p50_us"])), true
				}
				row = append(row, cell)
			}
			if any {
				t.add(row...)
			}
		}
		t.write(w)
	}
}

func writeContended(w io.Writer, r results) {
	t := table{head: []string{"contended", "hand-over p50, µs", "p99, µs", "wait p99, ms", "longest, ms", "Jain", "cycles/s", "Redis CPU, µs", "client CPU, µs", "commands"}}
	for _, c := range contestants {
		if f := r["contended"][c.name]; f.measured() {
			t.add(c.name, measure.Figure(f["handover_us"]), measure.Figure(f["handover99_us"]), measure.Figure(f["wait99_us"]/1e3), measure.Figure(f["longest_us"]/1e3),
				fmt.Sprintf("%.3f", f["jain"]), measure.Figure(f["rate"]), measure.Figure(f["redis_us"]), measure.Figure(f["client_us"]), measure.Figure(f["commands"]))
		}
	}
	t.write(w)
}

func writeOne(w io.Writer, r results) {
	t := table{head: []string{"one process", "cycles/s", "Redis CPU, µs", "client CPU, µs", "commands"}}
	for _, c := range contestants {
		if f := r["one"][c.name]; f.measured() {
			t.add(c.name, measure.Figure(f["rate"]), measure.Figure(f["redis_us"]), measure.Figure(f["client_us"]), measure.Figure(f["commands"]))
		}
	}
	t.write(w)
}

func writeObserved(w io.Writer, r results) {
	t := table{head: []string{"observed, 64 goroutines", "cycles/s", "Redis CPU, µs", "client CPU, µs", "allocations"}}
	for _, c := range contestants {
		if f := r[observedCell][c.name]; f.measured() {
			t.add(c.name, measure.Figure(f["rate"]), measure.Figure(f["redis_us"]), measure.Figure(f["client_us"]), measure.Figure(f["allocs"]))
		}
	}
	t.write(w)
}

func writeHeld(w io.Writer, r results) {
	t := table{head: []string{"held", "lost", "goroutines", "heap bytes a lease", "stack bytes a lease", "Redis CPU a lock, µs", "client CPU a lock, µs"}}
	for _, c := range contestants {
		if f := r["held"][c.name]; f.measured() {
			t.add(c.name, measure.Figure(f["lost"]), measure.Figure(f["goroutines"]), measure.Figure(f["lease_heap"]), measure.Figure(f["lease_stack"]), measure.Figure(f["redis_us"]), measure.Figure(f["client_us"]))
		}
	}
	t.write(w)
}

func writeRead(w io.Writer, r results) {
	t := table{head: []string{"read: cycles/s (CPU µs of Redis + of the client)", "1 process × 64", "commands", "8 processes × 8", "commands"}}
	for _, c := range contestants {
		one, eight := r[readCell(1)][c.name], r[readCell(8)][c.name]
		if one.measured() || eight.measured() {
			t.add(c.name, rate(one), measure.Figure(one["commands"]), rate(eight), measure.Figure(eight["commands"]))
		}
	}
	t.write(w)
}

func writeReadWrite(w io.Writer, r results) {
	t := table{head: []string{"readwrite", "cycles/s", "of writers", "readers' wait p99, ms", "writers', ms", "longest, ms", "Redis CPU, µs", "client CPU, µs", "commands"}}
	for _, c := range contestants {
		if f := r["readwrite"][c.name]; f.measured() {
			t.add(c.name, measure.Figure(f["rate"]), measure.Figure(f["written"]), measure.Figure(f["wait99_us"]/1e3), measure.Figure(f["writer99_us"]/1e3), measure.Figure(f["longest_us"]/1e3),
				measure.Figure(f["redis_us"]), measure.Figure(f["client_us"]), measure.Figure(f["commands"]))
		}
	}
	t.write(w)
}

func writeQuorum(w io.Writer, r results) {
	t := table{head: []string{"quorum of 5: cycles/s (CPU µs of all Redis + of the client)", "1", "p50 alone, µs", "64", "commands"}}
	for _, c := range contestants {
		alone, many := r[quorumCell(1)][c.name], r[quorumCell(64)][c.name]
		if alone.measured() || many.measured() {
			t.add(c.name, rate(alone), measure.Figure(alone["p50_us"]), rate(many), measure.Figure(many["commands"]))
		}
	}
	t.write(w)
}

func writeCluster(w io.Writer, r results) {
	t := table{head: []string{"Cluster of 3, 512 goroutines", "cycles/s", "CPU µs of all Redis", "of the client", "commands", "allocations"}}
	for _, c := range contestants {
		if f := r[clusterCell][c.name]; f.measured() {
			t.add(c.name, measure.Figure(f["rate"]), measure.Figure(f["redis_us"]), measure.Figure(f["client_us"]), measure.Figure(f["commands"]), measure.Figure(f["allocs"]))
		}
	}
	t.write(w)
}

func writeCrowd(w io.Writer, r results) {
	t := table{head: []string{"crowd: cycles/s (CPU µs of Redis + of the client)"}}
	largest := ""
	for _, n := range crowdLevels {
		if r[crowdCell(n)] != nil {
			t.head, largest = append(t.head, strconv.Itoa(n)), crowdCell(n)
		}
	}
	t.head = append(t.head, "Jain", "commands")
	for _, c := range contestants {
		row, any := []string{c.name}, false
		for _, n := range crowdLevels {
			if r[crowdCell(n)] != nil {
				f := r[crowdCell(n)][c.name]
				row, any = append(row, rate(f)), any || f.measured()
			}
		}
		if f := r[largest][c.name]; any {
			t.add(append(row, fmt.Sprintf("%.3f", f["jain"]), figure(f, "commands"))...)
		}
	}
	t.write(w)
}

func writeMemory(w io.Writer, r results) {
	t := table{head: []string{"memory of the server: bytes of a held lock", "all", "MEMORY USAGE", "expiries, tables", "name", "value"}}
	for _, c := range contestants {
		f := r["memory"][c.name]
		if !f.measured() {
			continue
		}
		row := []string{c.name}
		for _, name := range []string{"stored", "stored_keys", "stored_rest", "stored_name", "stored_value"} {
			row = append(row, figure(f, name))
		}
		t.add(row...)
	}
	t.write(w)
}

func writeQueue(w io.Writer, r results) {
	f := r["queue"]["holdfast-scripts"]
	if !f.measured() {
		return
	}
	t := table{head: []string{"queue: time of a script, µs: p50 (p99)"}}
	for _, depth := range queueDepths {
		t.head = append(t.head, strconv.Itoa(depth)+" waiters")
	}
	for _, old := range []bool{false, true} {
		for _, step := range queueSteps {
			row := []string{step}
			if old {
				row[0] += ", the first has waited for 2 minutes"
			}
			for _, depth := range queueDepths {
				row = append(row, queueTimes(f, step, old, depth))
			}
			t.add(row...)
		}
	}
	t.write(w)
}

// figure writes a figure; "" if it was not measured.
func figure(f figures, name string) string {
	if _, ok := f[name]; !ok {
		return ""
	}
	return measure.Figure(f[name])
}

// rate writes a turn's rate, and the processor time of its cycles.
func rate(f figures) string {
	if !f.measured() {
		return ""
	}
	return fmt.Sprintf("%s (%s + %s)", measure.Figure(f["rate"]), measure.Figure(f["redis_us"]), measure.Figure(f["client_us"]))
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

func writeStandings(w io.Writer, found []standing) {
	t := table{head: []string{"beside the floor and the best peer", "is", "aim", "reached"}}
	for _, s := range found {
		aim, reached := "", ""
		if s.Want != nil {
			sign := "≥"
			if s.AtMost {
				sign = "≤"
			}
			aim, reached = sign+" "+strconv.FormatFloat(*s.Want, 'g', -1, 64), "no"
			if *s.Reached {
				reached = "yes"
			}
		}
		t.add(s.What, measure.Figure(s.Value), aim, reached)
	}
	t.write(w)
}

// table is a table in Markdown. It is not written if it has no rows.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(row ...string) { t.rows = append(t.rows, row) }

func (t *table) write(w io.Writer) {
	if len(t.rows) == 0 {
		return
	}
	line := func(cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	fmt.Fprintln(w)
	line(t.head)
	line(slices.Concat([]string{"---"}, slices.Repeat([]string{"---:"}, len(t.head)-1)))
	for _, row := range t.rows {
		line(row)
	}
}
