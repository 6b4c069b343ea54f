package doctor

import (
	"errors"
	"os"
	"strings"
	"testing"
	"unicode"
)

// The report as people see it, in testdata/report.txt.
func TestText(t *testing.T) {
	const a, b, c = "a:1", "b:1", "c:1"
	r := newReport("a:1,b:1", "cluster", []string{a, b, c}, []Finding{
		Finding{ID: "clock", Severity: OK, Saw: "steady for 1s"}.on(a),
		Finding{ID: "acl", Severity: Unchecked, Saw: "NOPERM for COMMAND INFO"}.on(b),
		Finding{ID: "clock", Severity: OK, Saw: "steady for 2s"}.on(b),
		Finding{ID: "version", Severity: OK, Saw: "redis 7.0.15, Cluster mode"}.on(c),
		Finding{ID: "version", Severity: OK, Saw: "redis 7.0.15, Cluster mode"}.on(b),
		Finding{ID: "version", Severity: OK, Saw: "redis 7.0.15, Cluster mode"}.on(a),
		Finding{ID: "eviction", Severity: Problem, Saw: "volatile-lru with maxmemory 100 MB", Consequence: "locks are deleted", Remedy: "noeviction"}.on(c),
		Finding{ID: "eviction", Severity: Problem, Saw: "volatile-lru with maxmemory 100 MB", Consequence: "locks are deleted", Remedy: "noeviction"}.on(b),
		Finding{ID: "eviction", Severity: OK, Saw: "noeviction"}.on(a),
		Finding{ID: "failover", Severity: Note, Saw: "cluster-node-timeout 15000", Consequence: "renewals wait " + strings.Repeat("and wait ", 9), Remedy: "set it"}.on(a, b, c),
	})
	if r.Worst != Problem || r.ExitCode != 2 {
		t.Errorf("the worst is %s, exit code %d", r.Worst, r.ExitCode)
	}
	plain := r.Text(false)
	want, err := os.ReadFile("testdata/report.txt")
	if err != nil {
		t.Fatal(err)
	}
	if plain != string(want) {
		t.Errorf("got\n%s\nwant\n%s", plain, want)
	}
	for line := range strings.Lines(plain) {
		if len(line) > columns+1 {
			t.Errorf("too wide: %q", line)
		}
	}
	if s := r.Text(true); !strings.Contains(s, "\x1b[1;31mproblem    \x1b[0m  eviction") {
		t.Errorf("no colours: %q", s)
	}
}

// Each severity has an exit code, and so have vital checks that were impossible.
func TestExitCodes(t *testing.T) {
	for severity, want := range map[Severity]int{OK: 0, Unchecked: 3, Note: 0, Warning: 1, Problem: 2} {
		r := newReport("", "", nil, []Finding{{ID: "clock", Severity: OK}, {ID: "clock", Severity: severity}})
		if r.ExitCode != want || r.Worst != severity {
			t.Errorf("%s: exit code %d, the worst is %s", severity, r.ExitCode, r.Worst)
		}
	}
	for _, c := range []struct {
		id    string
		other Severity
		want  int
	}{
		{"eviction", Note, 3}, {"eviction", Warning, 1}, {"eviction", Problem, 2},
		{"acl", OK, 0}, {"latency", Note, 0},
	} {
		r := newReport("", "", nil, []Finding{{ID: c.id, Severity: Unchecked}, {ID: "latency", Severity: c.other}})
		if r.ExitCode != c.want {
			t.Errorf("%s not checked, and a %s: exit code %d, want %d", c.id, c.other, r.ExitCode, c.want)
		}
		text := r.Text(false)
		if told := strings.Contains(text, "was not checked: "+c.id); told != (c.want == 3 || c.id == "eviction") {
			t.Errorf("%s: %s", c.id, text)
		}
	}
}

// Texts of a server are escaped before a terminal shows them.
func TestWhatServersSayIsEscaped(t *testing.T) {
	const bad = "\x1b[2J\a\u202e\x9b\r\n"
	r := newReport("a"+bad, "server", []string{"a" + bad}, []Finding{
		warning("version", "redis 7"+bad, bad, bad).on("a" + bad),
		unchecked("clock", "TIME", errors.New(bad+strings.Repeat("x", 10_000))),
	})
	text := r.Text(false)
	for _, c := range text {
		if c != '\n' && !unicode.IsPrint(c) {
			t.Errorf("%q is shown: %q", c, text)
		}
	}
	if len(text) > 5000 {
		t.Errorf("%d bytes", len(text))
	}
}
