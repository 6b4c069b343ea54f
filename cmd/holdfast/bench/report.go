package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// report is the result of a run. Times are measured in this process.
type report struct {
	Server     string    `json:"server"`   // its address, without credentials
	Software   string    `json:"software"` // what the server calls itself
	Mode       string    `json:"mode"`     // server, sentinel or cluster
	Started    time.Time `json:"started"`
	Processors int       `json:"processors"` // of this machine
	Go         string    `json:"go"`
	GoRedis    string    `json:"go_redis"`
	Results    []*result `json:"results"`
	LeftOut    []string  `json:"left_out,omitempty"`
	Faults     []string  `json:"faults,omitempty"` // overlaps and lost leases, in words
	Error      string    `json:"error,omitempty"`
	ExitCode   int       `json:"exit_code"`

	overlap bool // two processes held a lock at once
}

// add sums up a result. It adds the result to the report unless nothing was measured and nothing went wrong.
func (r *report) add(result *result) {
	result.sumUp()
	faults := len(r.Faults)
	for _, f := range []struct {
		what string
		of   values
		key  string
	}{
		{"overlaps of two leases", result.Holdfast, overlaps.key},
		{"overlaps of two holders of the bare lock", result.Bare, overlaps.key},
		{"leases lost", result.Holdfast, lost.key},
		{"bare locks lost", result.Bare, lost.key},
	} {
		if n := f.of[f.key]; n > 0 {
			r.Faults = append(r.Faults, fmt.Sprintf("%.0f %s (%s)", n, f.what, result.name()))
			r.overlap = r.overlap || f.key == overlaps.key
		}
	}
	if result.Rounds > 0 || len(r.Faults) > faults {
		r.Results = append(r.Results, result)
	}
}

func (r *report) leaveOut(format string, args ...any) {
	r.LeftOut = append(r.LeftOut, fmt.Sprintf(format, args...))
}

// verdict returns the error of a run that ended with err. Overlaps take precedence over err. Lost leases do not: they may follow from err.
func (r *report) verdict(err error) error {
	if len(r.Faults) > 0 && (err == nil || r.overlap) {
		return &exitcode.Error{Code: exitcode.None, Err: errors.New("locks failed: " + strings.Join(r.Faults, "; "))}
	}
	return err
}

// text returns the report for people.
func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "bench: %s at %s (%s); client: %s, %s, go-redis %s\n",
		r.Software, r.Server, r.Mode, console.Count(r.Processors, "processor"), r.Go, r.GoRedis)
	for _, result := range r.Results {
		result.write(&b)
	}
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
	b.WriteString(`Figures are medians over the rounds, and the ratios are those of each round. Turns of the
two ways alternate, so that other load on the server or this machine affects both: compare
by the ratios. Server CPU includes all users of the server. A hand-over lasts from the call
of Release to the next holder's first step. Holdfast's waiters queue; those of one client
hand over without the server.
`)
	return b.String()
}

func (r *result) write(to *strings.Builder) {
	fmt.Fprintf(to, "\n%s: %s; ", r.name(), r.about)
	compared := len(r.Bare) > 0
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	if compared {
		fmt.Fprintf(to, "%s of ", console.Count(r.Rounds, "round"))
		fmt.Fprintf(t, "\t%s\t%s\tratio\tin rounds\t\n", wayNames[ours], wayNames[bare])
	}
	fmt.Fprintf(to, "%s\n\n", time.Duration(r.Millis)*time.Millisecond)
	for _, f := range r.figures {
		fmt.Fprintf(t, "%s\t%s\t", f.title, f.of(r.Holdfast))
		if compared {
			fmt.Fprintf(t, "%s\t", f.of(r.Bare))
			if q, is := r.Ratios[f.key]; is {
				fmt.Fprintf(t, "%s ×\t%s-%s\t", measure.Figure(q.Median), measure.Figure(q.Lowest), measure.Figure(q.Highest))
			}
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // into memory
	for line := range strings.Lines(table.String()) {
		to.WriteString(strings.TrimRight(line, " \n") + "\n") // empty cells leave spaces at the end
	}
}

// of returns the figure's value for people, or "-" if it was not measured.
func (f figure) of(v values) string {
	if value, measured := v[f.key]; measured {
		return f.write(value)
	}
	return "-"
}

// duration returns a time, given in µs, for people.
func duration(µs float64) string {
	switch {
	case µs >= 1e6:
		return measure.Figure(µs/1e6) + " s"
	case µs >= 1e4:
		return measure.Figure(µs/1e3) + " ms"
	}
	return measure.Figure(µs) + " µs"
}
