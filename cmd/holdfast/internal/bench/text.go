package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/measure"
)

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "holdfast bench: %s at %s", r.Software, r.Server)
	if r.Mode != "server" {
		fmt.Fprintf(&b, " (%s)", r.Mode)
	}
	fmt.Fprintf(&b, "; client: %s, %s, go-redis %s\n", plural(r.Processors, "processor"), r.Go, r.GoRedis)
	r.writeFree(&b)
	r.writeContended(&b)
	r.writeHeld(&b)
	b.WriteString("\n")
	for _, what := range r.LeftOut {
		fmt.Fprintf(&b, "left out: %s\n", what)
	}
	for _, what := range r.Faults {
		fmt.Fprintf(&b, "FAULT: %s\n", what)
	}
	if len(r.Faults) == 0 && r.Error == "" {
		b.WriteString("No overlaps, and no lease lost.\n")
	}
	if len(r.Free) == 0 && r.Contended == nil && r.Held == nil {
		b.WriteString("Nothing was measured.\n")
		_, err := io.WriteString(w, b.String())
		return err
	}
	b.WriteString(`Turns of the two ways alternate, so that other load on the server or this machine
affects both. Compare by the ratios, which are medians over the rounds; the other
figures vary from day to day. Server CPU includes all users of the server.
`)
	for line := range strings.Lines(b.String()) {
		// Empty cells leave spaces at the end.
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) writeFree(b *strings.Builder) {
	if len(r.Free) == 0 {
		return
	}
	f := r.Free[0]
	fmt.Fprintf(b, "\nfree: each goroutine locks and unlocks a name of its own;\n%s of %s; CPU time per cycle\n\n", plural(f.Rounds, "round"), millis(f.Turn))
	t := newTable(b, "goroutines", "", "cycles/s", "p50", "p99", "server CPU", "client CPU")
	for _, f := range r.Free {
		level := strconv.Itoa(f.Goroutines)
		for way, c := range [2]Cycle{ours: f.Holdfast, floor: f.Bare} {
			t.row(level, wayNames[way], figure(c.Rate, ""), duration(c.P50), duration(c.P99), duration(c.Server), duration(c.Client))
			level = ""
		}
		medians, spans := []string{"", "ratio"}, []string{"", "in rounds"}
		for _, q := range []Ratio{f.Ratios.Rate, f.Ratios.P50, f.Ratios.P99, f.Ratios.Server, f.Ratios.Client} {
			medians, spans = append(medians, times(q.Median)), append(spans, q.span())
		}
		t.row(medians...)
		if f.Rounds > 1 {
			t.row(spans...)
		}
	}
	t.end()
}

func (r *Report) writeContended(b *strings.Builder) {
	c := r.Contended
	if c == nil {
		return
	}
	fmt.Fprintf(b, "\ncontended: %d clients with %d goroutines each compete for one name, hold it for\n"+
		"%s ms, and think for up to %s ms; %s of %s; bare polls every %s ms\n\n", c.Clients, c.Goroutines, figure(c.Hold, ""), figure(c.Think, ""),
		plural(c.Rounds, "round"), millis(c.Turn), figure(c.Poll, ""))
	t := newTable(b, "", wayNames[ours], wayNames[floor], "ratio", "in rounds")
	h, o, q := c.Holdfast, c.Bare, c.Ratios
	t.row("hand-overs/s", figure(h.Rate, ""), figure(o.Rate, ""), times(q.Rate.Median), q.Rate.span())
	t.row("hand-over p50", duration(h.P50), duration(o.P50), times(q.P50.Median), q.P50.span())
	t.row("p99", duration(h.P99), duration(o.P99), times(q.P99.Median), q.P99.span())
	t.row("between clients p50", duration(h.BetweenP50), duration(o.BetweenP50), times(q.BetweenP50.Median), q.BetweenP50.span())
	t.row("p99", duration(h.BetweenP99), duration(o.BetweenP99), times(q.BetweenP99.Median), q.BetweenP99.span())
	t.row("longest wait", duration(h.Longest*1e3), duration(o.Longest*1e3), "", "")
	t.row("Jain's index", fixed(h.Jain), fixed(o.Jain), "", "")
	t.row("server CPU per grant", duration(h.Server), duration(o.Server), times(q.Server.Median), q.Server.span())
	t.row("client CPU per grant", duration(h.Client), duration(o.Client), times(q.Client.Median), q.Client.span())
	t.row("overlaps", strconv.Itoa(h.Overlaps), strconv.Itoa(o.Overlaps), "", "")
	t.end()
	b.WriteString("\nA hand-over lasts from the call of Release to the next holder's first step.\n" +
		"Holdfast's waiters queue; those of one client hand over without the server.\n")
}

func (r *Report) writeHeld(b *strings.Builder) {
	h := r.Held
	if h == nil {
		return
	}
	of := ""
	if h.Leases < h.Wanted {
		of = fmt.Sprintf(" (of %s; the others were not granted in time)", figure(Number(h.Wanted), ""))
	}
	fmt.Fprintf(b, "\nheld: %s leases%s with a TTL of %s, for %s\n\n", figure(Number(h.Leases), ""), of, millis(r.TTLMillis), millis(h.For))
	t := newTable(b)
	t.row("lost", strconv.Itoa(h.Lost))
	t.row("renewed", figure(Number(h.Renewed), ""))
	t.row("server CPU per lease and second", duration(h.Server))
	t.row("client CPU per lease and second", duration(h.Client))
	t.row("heap per lease", figure(h.Heap, " bytes"))
	t.end()
}

// table is a table whose columns are aligned to the right.
type table struct{ w *tabwriter.Writer }

func newTable(b *strings.Builder, head ...string) table {
	t := table{tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)}
	if len(head) > 0 {
		t.row(head...)
	}
	return t
}

func (t table) row(cells ...string) { fmt.Fprintln(t.w, strings.Join(cells, "\t")+"\t") }

func (t table) end() { _ = t.w.Flush() } // into memory

// none is written for a figure that was not measured.
const none = "-"

// figure writes a number with about three digits.
func figure(n Number, unit string) string {
	if !n.measured() {
		return none
	}
	return measure.Figure(float64(n)) + unit
}

// duration writes a time given in µs.
func duration(µs Number) string {
	switch {
	case µs >= 1e6:
		return figure(µs/1e6, " s")
	case µs >= 1e4:
		return figure(µs/1e3, " ms")
	}
	return figure(µs, " µs")
}

func millis(n int64) string {
	d := time.Duration(n) * time.Millisecond
	if d > 10*time.Second {
		d = d.Round(100 * time.Millisecond)
	}
	return d.String()
}

func times(n Number) string { return figure(n, " ×") }

func fixed(n Number) string {
	if !n.measured() {
		return none
	}
	return strconv.FormatFloat(float64(n), 'f', 3, 64)
}

// span writes the lowest and the highest ratio of a round.
func (r Ratio) span() string {
	if !r.Median.measured() {
		return none
	}
	return figure(r.Lowest, "") + "-" + figure(r.Highest, "")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
