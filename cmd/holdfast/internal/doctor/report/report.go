// Package report has what a doctor finds: findings, and the report that they become. It knows no servers.
package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// Severity says how much a finding matters to locks.
type Severity string

// The severities, the mildest first.
const (
	OK        Severity = "ok"
	Unchecked Severity = "not checked" // the server does not answer, or not to this user
	Note      Severity = "note"        // good to know; a fault would show it
	Warning   Severity = "warning"     // locks work, but a fault can break what they promise
	Problem   Severity = "problem"     // locks do not work, or do not hold
)

func (s Severity) rank() int {
	return slices.Index([]Severity{OK, Unchecked, Note, Warning, Problem}, s)
}

// Finding is the result of a check, on one server or on several alike.
type Finding struct {
	ID          string   `json:"id"` // of the Check
	Severity    Severity `json:"severity"`
	Servers     []string `json:"servers"`
	Saw         string   `json:"saw"`
	Consequence string   `json:"consequence,omitempty"` // for locks
	Remedy      string   `json:"remedy,omitempty"`
}

// On returns the finding with the addresses of the servers that it is about.
func (f Finding) On(servers ...string) Finding {
	f.Servers = append([]string{}, servers...)
	return f
}

// Report has the findings of an examination, the worst first.
type Report struct {
	Server    string    `json:"server"` // without credentials
	Mode      string    `json:"mode"`   // "server", "sentinel", "cluster" or "quorum"
	Servers   []string  `json:"servers"`
	Worst     Severity  `json:"worst"`
	ExitCode  int       `json:"exit_code"`
	Unchecked []string  `json:"unchecked,omitempty"` // the IDs of vital checks that were impossible
	Findings  []Finding `json:"findings"`
}

// New returns the report of these findings about servers. Findings that differ only by their servers become one.
func New(server, mode string, servers []string, findings []Finding) *Report {
	r := &Report{Server: shown(server), Mode: mode, Worst: OK}
	for _, addr := range servers {
		r.Servers = append(r.Servers, shown(addr))
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		_, orderA := checkOf(a.ID)
		_, orderB := checkOf(b.ID)
		return cmp.Or(b.Severity.rank()-a.Severity.rank(), orderA-orderB)
	})
	for _, f := range findings {
		r.add(f.mapTexts(shown))
	}
	for _, f := range r.Findings {
		slices.SortFunc(f.Servers, func(a, b string) int {
			return slices.Index(r.Servers, a) - slices.Index(r.Servers, b)
		})
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
	check, _ := checkOf(f.ID)
	if f.Severity == Unchecked && check.Vital && !slices.Contains(r.Unchecked, f.ID) {
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

// shown returns a text that can be shown. Servers, or programs that pose as one, choose what is in INFO, in settings, in
// errors and in addresses.
func shown(text string) string {
	return printable.Line(strings.ReplaceAll(text, "\n", "; "), maxShown) // joined errors have line feeds
}

// mapTexts returns the finding with all its texts changed.
func (f Finding) mapTexts(change func(string) string) Finding {
	servers := []string{}
	for _, addr := range f.Servers {
		servers = append(servers, change(addr))
	}
	f.Saw, f.Consequence, f.Remedy, f.Servers = change(f.Saw), change(f.Consequence), change(f.Remedy), servers
	return f
}

// Redact changes all texts that servers may have contributed to. It is called before the report is broken into lines
// or becomes JSON, so that passwords are still whole.
func (r *Report) Redact(change func(string) string) {
	for i, f := range r.Findings {
		r.Findings[i] = f.mapTexts(change)
	}
}
