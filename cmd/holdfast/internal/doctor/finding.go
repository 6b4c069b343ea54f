package doctor

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

// Finding is one thing that was examined, on one server or on several alike.
type Finding struct {
	ID          string   `json:"id"` // one of Checks
	Severity    Severity `json:"severity"`
	Servers     []string `json:"servers"`
	Saw         string   `json:"saw"`
	Consequence string   `json:"consequence,omitempty"` // for locks
	Remedy      string   `json:"remedy,omitempty"`
}

// Report is what an examination found, the worst first.
type Report struct {
	Server   string   `json:"server"` // without credentials
	Mode     string   `json:"mode"`   // "server", "sentinel", "cluster" or "quorum"
	Servers  []string `json:"servers"`
	Worst    Severity `json:"worst"`
	ExitCode int      `json:"exit_code"`
	// Unchecked are the IDs of the checks that matter to safety and could not be made.
	Unchecked []string  `json:"unchecked,omitempty"`
	Findings  []Finding `json:"findings"`
}

// Check is something that is examined. Its ID does not change between versions.
type Check struct{ ID, About string }

// vital are the checks without which a server is not known to be safe for locks. What the others look
// at shows in these, or is good to know.
var vital = map[string]bool{
	"version": true, "trial": true, "replication": true, "topology": true, "identity": true, "quorum": true,
	"eviction": true, "persistence": true, "clock": true, "pubsub": true,
}

// Checks lists all, in the order in which findings of one severity are reported.
var Checks = []Check{
	{"version", "is the server's version known, and supported"},
	{"trial", "acquire, renew, release and hand over a lock on a throwaway name"},
	{"replication", "is it a master; may a failover lose locks; min-replicas-to-write"},
	{"topology", "all slots served (Cluster); quorum of sentinels (Sentinel)"},
	{"identity", "do connections all lead to the same server"},
	{"quorum", "several servers: how many, each by itself, admitted, not in quarantine"},
	{"eviction", "may the server delete locks when its memory is full"},
	{"memory", "is it about to be full"},
	{"persistence", "what a restart forgets; do saves fail"},
	{"clock", "does its clock step, run at another rate, differ between servers"},
	{"pubsub", "does a notification arrive; does the server know of subscriptions"},
	{"acl", "may this user send all that locks need"},
	{"latency", "PING and a lock's cycle, beside the TTL"},
	{"busy-limit", "after what time is a hanging script reported as BUSY"},
	{"connections", "is maxclients near"},
	{"pubsub-buffer", "are slow subscribers cut off early"},
	{"transport", "is the way encrypted, and the server's certificate checked"},
	{"password", "may anybody use the server without a password"},
	{"native", "commands that compare: DELEX, DELIFEQ, SET IFEQ"},
}

func order(id string) int {
	return slices.IndexFunc(Checks, func(c Check) bool { return c.ID == id })
}

// conclude puts findings together that differ by the server only, sorts them, and says
// what they come to.
func (r *Report) conclude(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(b.Severity.rank()-a.Severity.rank(), order(a.ID)-order(b.ID))
	})
	r.Worst, r.Server = OK, shown(r.Server)
	for i, addr := range r.Servers {
		r.Servers[i] = shown(addr)
	}
	for _, f := range all {
		f = f.each(shown)
		if f.Severity == Unchecked && vital[f.ID] && !slices.Contains(r.Unchecked, f.ID) {
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
			continue
		}
		r.Findings[i].Servers = append(slices.Clone(r.Findings[i].Servers), f.Servers...)
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
}

// maxShown bounds each of a finding's texts, in bytes.
const maxShown = 2000

// shown returns a text as it can be shown: servers, and whoever is taken for one, say what they like in INFO,
// in settings, in errors and as the addresses of others.
func shown(text string) string {
	return printable.Line(strings.ReplaceAll(text, "\n", "; "), maxShown) // line feeds are of errors that were joined
}

// each returns the finding with all its texts changed.
func (f Finding) each(change func(string) string) Finding {
	servers := []string{}
	for _, addr := range f.Servers {
		servers = append(servers, change(addr))
	}
	f.Saw, f.Consequence, f.Remedy, f.Servers = change(f.Saw), change(f.Consequence), change(f.Remedy), servers
	return f
}

// Redact changes all texts that servers may have a part in: passwords are taken out before the report is
// broken into lines, or becomes JSON.
func (r *Report) Redact(change func(string) string) {
	for i, f := range r.Findings {
		r.Findings[i] = f.each(change)
	}
}
