package report

import (
	"fmt"
	"io"
	"strings"
)

// A report is columns wide. Its text begins at indent.
const (
	columns = 80
	indent  = 28
)

var styles = map[Severity]string{OK: "32", Unchecked: "2", Note: "36", Warning: "1;33", Problem: "1;31"}

// Write writes the report for people.
func (r *Report) Write(w io.Writer, colors bool) error {
	style := func(code, text string) string {
		if !colors {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "holdfast doctor: %s (%s)\n", r.Server, r.subject())
	for i, f := range r.summarized() {
		// A blank line separates what has to be read from what is fine.
		if i == 0 || f.Severity.rank() > Unchecked.rank() || r.isFirstBelow(Note, f) {
			b.WriteString("\n")
		}
		lines := wrap(f.Saw)
		fmt.Fprintf(&b, "%s  %-13s  %s\n", style(styles[f.Severity], fmt.Sprintf("%-11s", f.Severity)), f.ID, lines[0])
		write := func(code, mark string, lines []string) {
			for i, line := range lines {
				if i > 0 {
					mark = strings.Repeat(" ", len(mark))
				}
				fmt.Fprintf(&b, "%*s%s\n", indent, "", style(code, mark+line))
			}
		}
		write("0", "", lines[1:])
		if f.Severity != OK && 0 < len(f.Servers) && len(f.Servers) < len(r.Servers) {
			write("2", "on ", wrap(strings.Join(f.Servers, ", ")))
		}
		if f.Consequence != "" {
			write("0", "- ", wrap(f.Consequence))
		}
		if f.Remedy != "" {
			write("1", "> ", wrap(f.Remedy))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", r.counts())
	if len(r.Unchecked) > 0 {
		fmt.Fprintf(&b, "Not known to be safe, because this was not checked: %s.\n", strings.Join(r.Unchecked, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// subject says what was examined.
func (r *Report) subject() string {
	text := Count(int64(len(r.Servers)), "server")
	switch r.Mode {
	case "cluster":
		return "Cluster, " + text
	case "sentinel":
		return "behind sentinels, " + text
	case "quorum":
		return "quorum, " + text
	}
	return text
}

// summarized returns the findings. A check that several servers passed with different findings has one finding here.
func (r *Report) summarized() (all []Finding) {
	for _, f := range r.Findings {
		if n := len(all); f.Severity == OK && n > 0 && all[n-1].ID == f.ID && all[n-1].Severity == OK {
			servers := append(append([]string{}, all[n-1].Servers...), f.Servers...)
			all[n-1].Servers, all[n-1].Saw = servers, fmt.Sprintf("fine on %d servers", len(servers))
			continue
		}
		all = append(all, f)
	}
	return all
}

// isFirstBelow reports whether f is the first finding that is milder than s, after others that are not.
func (r *Report) isFirstBelow(s Severity, f Finding) bool {
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

// counts counts the findings.
func (r *Report) counts() string {
	n := map[Severity]int64{}
	for _, f := range r.summarized() {
		n[f.Severity]++
	}
	return fmt.Sprintf("%s, %s, %s; %d ok, %d not checked.",
		Count(n[Problem], "problem"), Count(n[Warning], "warning"), Count(n[Note], "note"), n[OK], n[Unchecked])
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

// Count returns a number of things, in words.
func Count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
