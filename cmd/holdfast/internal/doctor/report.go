package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

// Severity says how much a finding matters.
type Severity string

// The severities, the mildest first.
const (
	OK        Severity = "ok"
	Unchecked Severity = "not checked" // the server does not answer, or not to this user
	Note      Severity = "note"        // good to know
	Warning   Severity = "warning"     // locks work, but a fault can break their promise
	Problem   Severity = "problem"     // locks do not work, or two may hold one
)

func (s Severity) rank() int {
	return slices.Index([]Severity{OK, Unchecked, Note, Warning, Problem}, s)
}

// checks are the IDs of all checks, in the order in which findings of the same severity are reported. IDs do not change between versions.
// If a vital check is impossible, the server is not known to be safe for locks.
var (
	checks = append(vital, "failover", "acl", "latency", "native")
	vital  = []string{"version", "trial", "replication", "topology", "identity", "quorum", "eviction", "persistence", "clock", "pubsub"}
)

// Finding is the result of a check, on one server or on several alike.
type Finding struct {
	ID          string   `json:"id"` // of the check
	Severity    Severity `json:"severity"`
	Servers     []string `json:"servers"`
	Saw         string   `json:"saw"`
	Consequence string   `json:"consequence,omitempty"` // for locks
	Remedy      string   `json:"remedy,omitempty"`
}

func fine(id, saw string) Finding { return Finding{id, OK, nil, saw, "", ""} }
func note(id, saw, consequence, remedy string) Finding {
	return Finding{id, Note, nil, saw, consequence, remedy}
}
func warning(id, saw, consequence, remedy string) Finding {
	return Finding{id, Warning, nil, saw, consequence, remedy}
}
func problem(id, saw, consequence, remedy string) Finding {
	return Finding{id, Problem, nil, saw, consequence, remedy}
}

// unchecked returns the finding of a check that was impossible because a command failed.
func unchecked(id, command string, err error) Finding {
	return Finding{ID: id, Severity: Unchecked, Saw: because(command, err)}
}

// on returns the finding with the addresses of its servers.
func (f Finding) on(servers ...string) Finding {
	f.Servers = append([]string{}, servers...)
	return f
}

// Report is the result of an examination. The worst findings come first.
type Report struct {
	Server    string    `json:"server"` // without credentials
	Mode      string    `json:"mode"`   // "server", "sentinel", "cluster" or "quorum"
	Servers   []string  `json:"servers"`
	Worst     Severity  `json:"worst"`
	ExitCode  int       `json:"exit_code"`
	Unchecked []string  `json:"unchecked,omitempty"` // the IDs of vital checks that were impossible
	Findings  []Finding `json:"findings"`
}

// newReport returns the report of findings. It merges findings that differ only in their servers.
func newReport(server, mode string, servers []string, findings []Finding) *Report {
	r := &Report{Server: shown(server), Mode: mode, Worst: OK}
	for _, addr := range servers {
		r.Servers = append(r.Servers, shown(addr))
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(b.Severity.rank()-a.Severity.rank(), slices.Index(checks, a.ID)-slices.Index(checks, b.ID))
	})
	for _, f := range findings {
		r.add(f.mapTexts(shown))
	}
	for _, f := range r.Findings {
		slices.SortFunc(f.Servers, func(a, b string) int { return slices.Index(r.Servers, a) - slices.Index(r.Servers, b) })
	}
	switch {
	case r.Worst == Problem:
		r.ExitCode = 2
	case r.Worst == Warning:
		r.ExitCode = 1
	case len(r.Unchecked) > 0:
		r.ExitCode = 3
	}
	return r
}

func (r *Report) add(f Finding) {
	if f.Severity == Unchecked && slices.Contains(vital, f.ID) && !slices.Contains(r.Unchecked, f.ID) {
		r.Unchecked = append(r.Unchecked, f.ID)
	}
	if f.Severity.rank() > r.Worst.rank() {
		r.Worst = f.Severity
	}
	i := slices.IndexFunc(r.Findings, func(g Finding) bool {
		return f.ID == g.ID && f.Severity == g.Severity && f.Saw == g.Saw && f.Consequence == g.Consequence && f.Remedy == g.Remedy
	})
	if i < 0 {
		r.Findings = append(r.Findings, f)
		return
	}
	r.Findings[i].Servers = append(r.Findings[i].Servers, f.Servers...)
}

// maxShown bounds each text of a finding, in bytes.
const maxShown = 2000

// shown returns a text that is safe to show. A server, or a program that poses as one, chooses what INFO, settings, errors and addresses
// contain.
func shown(text string) string {
	return printable.Line(strings.ReplaceAll(text, "\n", "; "), maxShown) // joined errors have line feeds
}

// mapTexts returns the finding with change applied to all its texts.
func (f Finding) mapTexts(change func(string) string) Finding {
	servers := []string{}
	for _, addr := range f.Servers {
		servers = append(servers, change(addr))
	}
	f.Saw, f.Consequence, f.Remedy, f.Servers = change(f.Saw), change(f.Consequence), change(f.Remedy), servers
	return f
}

// Redact applies change to all texts that servers may have contributed to. It is called before the report is broken into lines or becomes
// JSON, while passwords are still in one piece.
func (r *Report) Redact(change func(string) string) {
	for i, f := range r.Findings {
		r.Findings[i] = f.mapTexts(change)
	}
}

// The width of a report, and the column where the texts of findings begin.
const (
	columns = 80
	indent  = 28
)

var styles = map[Severity]string{OK: "32", Unchecked: "2", Note: "36", Warning: "1;33", Problem: "1;31"}

// Text returns the report for people.
func (r *Report) Text(colors bool) string {
	style := console.Styles(colors).Text
	var b strings.Builder
	kind := map[string]string{"cluster": "Cluster, ", "sentinel": "behind sentinels, ", "quorum": "quorum, "}[r.Mode]
	fmt.Fprintf(&b, "holdfast doctor: %s (%s%s)\n", r.Server, kind, console.Count(len(r.Servers), "server"))
	counts, above := map[Severity]int{}, Problem
	for _, f := range r.summarized() {
		// A blank line separates the findings that need attention from each other and from the rest.
		if above.rank() > Unchecked.rank() {
			b.WriteString("\n")
		}
		above = f.Severity
		counts[f.Severity]++
		about := [][3]string{{"0", "", f.Saw}, {"0", "- ", f.Consequence}, {"1", "> ", f.Remedy}}
		if f.Severity != OK && 0 < len(f.Servers) && len(f.Servers) < len(r.Servers) {
			about = slices.Insert(about, 1, [3]string{"2", "on ", strings.Join(f.Servers, ", ")})
		}
		start := fmt.Sprintf("%s  %-13s  ", style(styles[f.Severity], fmt.Sprintf("%-11s", f.Severity)), f.ID)
		for _, part := range about {
			mark := part[1]
			for _, line := range wrap(part[2]) {
				b.WriteString(start + style(part[0], mark+line) + "\n")
				start, mark = strings.Repeat(" ", indent), strings.Repeat(" ", len(mark))
			}
		}
	}
	fmt.Fprintf(&b, "\n%s, %s, %s; %d ok, %d not checked.\n", console.Count(counts[Problem], "problem"),
		console.Count(counts[Warning], "warning"), console.Count(counts[Note], "note"), counts[OK], counts[Unchecked])
	if len(r.Unchecked) > 0 {
		fmt.Fprintf(&b, "Not known to be safe, because this was not checked: %s.\n", strings.Join(r.Unchecked, ", "))
	}
	return b.String()
}

// summarized returns the findings, with a single one for each check that several servers have passed.
func (r *Report) summarized() (all []Finding) {
	for _, f := range r.Findings {
		if n := len(all); f.Severity == OK && n > 0 && all[n-1].ID == f.ID && all[n-1].Severity == OK {
			servers := slices.Concat(all[n-1].Servers, f.Servers)
			all[n-1].Servers, all[n-1].Saw = servers, fmt.Sprintf("fine on %d servers", len(servers))
			continue
		}
		all = append(all, f)
	}
	return all
}

// wrap breaks a text into lines that leave room for the indent and a mark.
func wrap(text string) (lines []string) {
	const width = columns - indent - 3
	for _, word := range strings.Fields(text) {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+1+len(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// errNotTold is the error of a server whose reply lacks what was asked for. An embedded server replies so.
var errNotTold = errors.New("the server does not tell")

// because says in a few words why a command failed.
func because(command string, err error) string {
	text := connect.ErrorText(err)
	switch {
	case errors.Is(err, errNotTold):
		return command + ": " + text
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, os.ErrDeadlineExceeded):
		return command + ": no answer in time"
	case strings.HasPrefix(text, "NOPERM"):
		return "NOPERM for " + command
	case strings.HasPrefix(text, "ERR unknown command"), strings.HasPrefix(text, "ERR unknown subcommand"):
		return "the server does not know " + command
	}
	return fmt.Sprintf("%s: %.120s", command, text)
}
