package doctor

import (
	"os"
	"strings"
	"testing"
)

// The report as people see it, in testdata/report.txt.
func TestText(t *testing.T) {
	r := &Report{Server: "a:1,b:1", Mode: "cluster", Servers: []string{"a:1", "b:1", "c:1"}}
	a, b, c := &node{addr: "a:1"}, &node{addr: "b:1"}, &node{addr: "c:1"}
	r.conclude([]Finding{
		Finding{ID: "memory", Severity: OK, Saw: "1 MB used, no maxmemory"}.on(a),
		Finding{ID: "native", Severity: Unchecked, Saw: "NOPERM for COMMAND INFO"}.on(b),
		Finding{ID: "memory", Severity: OK, Saw: "2 MB used, no maxmemory"}.on(b),
		Finding{ID: "version", Severity: OK, Saw: "redis 7.0.15, Cluster mode"}.on(c),
		Finding{ID: "version", Severity: OK, Saw: "redis 7.0.15, Cluster mode"}.on(b),
		Finding{ID: "version", Severity: OK, Saw: "redis 7.0.15, Cluster mode"}.on(a),
		Finding{ID: "eviction", Severity: Problem, Saw: "volatile-lru with maxmemory 100 MB", Consequence: "locks are deleted", Remedy: "noeviction"}.on(c),
		Finding{ID: "eviction", Severity: Problem, Saw: "volatile-lru with maxmemory 100 MB", Consequence: "locks are deleted", Remedy: "noeviction"}.on(b),
		Finding{ID: "eviction", Severity: OK, Saw: "noeviction"}.on(a),
		Finding{ID: "busy-limit", Severity: Note, Saw: "a script that hangs is never reported", Consequence: "renewals wait " + strings.Repeat("and wait ", 9), Remedy: "set it"}.on(a, b, c),
	})
	if r.Worst != Problem || r.ExitCode != 2 {
		t.Errorf("the worst is %s, exit code %d", r.Worst, r.ExitCode)
	}
	var plain, colored strings.Builder
	if err := r.Write(&plain, false); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/report.txt")
	if err != nil {
		t.Fatal(err)
	}
	if plain.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", &plain, want)
	}
	for line := range strings.Lines(plain.String()) {
		if len(line) > columns+1 {
			t.Errorf("too wide: %q", line)
		}
	}
	if err := r.Write(&colored, true); err != nil {
		t.Fatal(err)
	}
	if s := colored.String(); !strings.Contains(s, "\x1b[1;31mproblem    \x1b[0m  eviction") {
		t.Errorf("no colours: %q", s)
	}
}

// An exit code for each severity.
func TestExitCodes(t *testing.T) {
	for severity, want := range map[Severity]int{OK: 0, Unchecked: 0, Note: 0, Warning: 1, Problem: 2} {
		r := &Report{}
		r.conclude([]Finding{{ID: "memory", Severity: OK}, {ID: "clock", Severity: severity}})
		if r.ExitCode != want || r.Worst != severity {
			t.Errorf("%s: exit code %d, the worst is %s", severity, r.ExitCode, r.Worst)
		}
	}
}
