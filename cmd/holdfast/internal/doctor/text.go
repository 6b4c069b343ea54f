package doctor

import (
	"fmt"
	"io"
	"strings"
)

// columns is the width of a report, indent where its text begins.
const (
	columns = 80
	indent  = 28
)

var styles = map[Severity]string{OK: "32", Unchecked: "2", Note: "36", Warning: "1;33", Problem: "1;31"}

// Write writes the report for people, in 80 columns.
func (r *Report) Write(w io.Writer, colors bool) error {
	style := func(code, text string) string {
		if !colors {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "holdfast doctor: %s (%s)\n", r.Server, r.what())
	for i, f := range r.brief() {
		// What is to be read stands apart from what is fine.
		if i == 0 || f.Severity.rank() > Unchecked.rank() || r.last(Note, f) {
			b.WriteString("\n")
		}
		lines := wrap(f.Saw)
		fmt.Fprintf(&b, "%s  %-13s  %s\n", style(styles[f.Severity], fmt.Sprintf("%-11s", f.Severity)), f.ID, lines[0])
		tell := func(code, mark string, lines []string) {
			for i, line := range lines {
				if i > 0 {
					mark = strings.Repeat(" ", len(mark))
				}
				fmt.Fprintf(&b, "%*s%s\n", indent, "", style(code, mark+line))
			}
		}
		tell("0", "", lines[1:])
		if f.Severity != OK && 0 < len(f.Servers) && len(f.Servers) < len(r.Servers) {
			tell("2", "on ", wrap(strings.Join(f.Servers, ", ")))
		}
		if f.Consequence != "" {
			tell("0", "- ", wrap(f.Consequence))
		}
		if f.Remedy != "" {
			tell("1", "> ", wrap(f.Remedy))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", r.sum())
	if len(r.Unchecked) > 0 {
		fmt.Fprintf(&b, "Not known to be safe, because this was not checked: %s.\n", strings.Join(r.Unchecked, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// what says what was examined.
func (r *Report) what() string {
	text := count(int64(len(r.Servers)), "server")
	switch r.Mode {
	case "cluster":
		return "Cluster, " + text
	case "sentinel":
		return "behind sentinels, " + text
	case "quorum":
		return "a quorum, " + text
	}
	return text
}

// brief returns the findings, with one for each check that several servers passed, each
// in its way.
func (r *Report) brief() (short []Finding) {
	for _, f := range r.Findings {
		if n := len(short); f.Severity == OK && n > 0 && short[n-1].ID == f.ID && short[n-1].Severity == OK {
			servers := append(append([]string{}, short[n-1].Servers...), f.Servers...)
			short[n-1].Servers, short[n-1].Saw = servers, fmt.Sprintf("fine on %d servers", len(servers))
			continue
		}
		short = append(short, f)
	}
	return short
}

// last reports whether f is the first finding below a severity that has findings.
func (r *Report) last(s Severity, f Finding) bool {
	above := false
	for _, g := range r.Findings {
		if g.Severity.rank() >= s.rank() {
			above = true
			continue
		}
		return above && g.ID == f.ID && g.Severity == f.Severity
	}
	return false
}

// sum counts the findings.
func (r *Report) sum() string {
	n := map[Severity]int64{}
	for _, f := range r.brief() {
		n[f.Severity]++
	}
	return fmt.Sprintf("%s, %s, %s; %d ok, %d not checked.",
		count(n[Problem], "problem"), count(n[Warning], "warning"), count(n[Note], "note"), n[OK], n[Unchecked])
}

// wrap breaks a text into lines that fit behind the indent and a mark.
func wrap(text string) (lines []string) {
	const width = columns - indent - 3
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
