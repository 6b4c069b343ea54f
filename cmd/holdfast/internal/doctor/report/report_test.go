package report

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
	r := New("a:1,b:1", "cluster", []string{a, b, c}, []Finding{
		Finding{ID: "memory", Severity: OK, Saw: "1 MB used, no maxmemory"}.On(a),
		Finding{ID: "native", Severity: Unchecked, Saw: "NOPERM for COMMAND INFO"}.On(b),
		Finding{ID: "memory", Severity: OK, Saw: "2 MB used, no maxmemory"}.On(b),
		Finding{ID: "version", Severity: OK, Saw: "redis 7.0.15, Cluster mode"}.On(c),
		Finding{ID: "version", Severity: OK, Saw: "redis 7.0.15, Cluster mode"}.On(b),
		Finding{ID: "version", Severity: OK, Saw: "redis 7.0.15, Cluster mode"}.On(a),
		Finding{ID: "eviction", Severity: Problem, Saw: "volatile-lru with maxmemory 100 MB", Consequence: "locks are deleted", Remedy: "noeviction"}.On(c),
		Finding{ID: "eviction", Severity: Problem, Saw: "volatile-lru with maxmemory 100 MB", Consequence: "locks are deleted", Remedy: "noeviction"}.On(b),
		Finding{ID: "eviction", Severity: OK, Saw: "noeviction"}.On(a),
		Finding{ID: "busy-limit", Severity: Note, Saw: "a script that hangs is never reported", Consequence: "renewals wait " + strings.Repeat("and wait ", 9), Remedy: "set it"}.On(a, b, c),
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

// Each severity has an exit code, and so have vital checks that were impossible.
func TestExitCodes(t *testing.T) {
	for severity, want := range map[Severity]int{OK: 0, Unchecked: 3, Note: 0, Warning: 1, Problem: 2} {
		r := New("", "", nil, []Finding{{ID: "memory", Severity: OK}, {ID: "clock", Severity: severity}})
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
		{"native", OK, 0}, {"acl", OK, 0}, {"connections", Note, 0},
	} {
		r := New("", "", nil, []Finding{{ID: c.id, Severity: Unchecked}, {ID: "transport", Severity: c.other}})
		if r.ExitCode != c.want {
			t.Errorf("%s not checked, and a %s: exit code %d, want %d", c.id, c.other, r.ExitCode, c.want)
		}
		var text strings.Builder
		if err := r.Write(&text, false); err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(text.String(), "was not checked: "+c.id); told != (c.want == 3 || c.id == "eviction") {
			t.Errorf("%s: %s", c.id, &text)
		}
	}
}

// Texts of a server are escaped before a terminal shows them.
func TestWhatServersSayIsEscaped(t *testing.T) {
	const bad = "\x1b[2J\a\u202e\x9b\r\n"
	r := New("a"+bad, "server", []string{"a" + bad}, []Finding{
		Version.Warning("redis 7"+bad, bad, bad).On("a" + bad),
		Clock.Unchecked("TIME", errors.New(bad+strings.Repeat("x", 10_000))),
	})
	var text strings.Builder
	if err := r.Write(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, c := range text.String() {
		if c != '\n' && !unicode.IsPrint(c) {
			t.Errorf("%q is shown: %q", c, text.String())
		}
	}
	if text.Len() > 5000 {
		t.Errorf("%d bytes", text.Len())
	}
}
