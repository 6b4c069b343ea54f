package doctor

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
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

// An exit code for each severity, and one for what was not checked without which a server is not known to be
// safe.
func TestExitCodes(t *testing.T) {
	for severity, want := range map[Severity]int{OK: 0, Unchecked: 3, Note: 0, Warning: 1, Problem: 2} {
		r := &Report{}
		r.conclude([]Finding{{ID: "memory", Severity: OK}, {ID: "clock", Severity: severity}})
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
		r := &Report{}
		r.conclude([]Finding{{ID: c.id, Severity: Unchecked}, {ID: "transport", Severity: c.other}})
		if r.ExitCode != c.want {
			t.Errorf("%s not checked, and a %s: exit code %d, want %d", c.id, c.other, r.ExitCode, c.want)
		}
		var text strings.Builder
		if err := r.Write(&text, false); err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(text.String(), "was not checked: "+c.id); told != vital[c.id] {
			t.Errorf("%s: %s", c.id, &text)
		}
	}
}

// What a server says does not reach the terminal as it is.
func TestWhatServersSayIsEscaped(t *testing.T) {
	const bad = "\x1b[2J\a\u202e\x9b\r\n"
	r := &Report{Server: "a" + bad, Servers: []string{"a" + bad}, Mode: "server"}
	r.conclude([]Finding{
		Finding{ID: "version", Severity: Warning, Saw: "redis 7" + bad, Consequence: bad, Remedy: bad}.on(&node{addr: "a" + bad}),
		unchecked("clock", "TIME", errors.New(bad+strings.Repeat("x", 10_000))),
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

// Any number of nodes from 3 to 31 is a quorum; an even one is no problem, but bears no more failures.
func TestNumbersOfNodes(t *testing.T) {
	for n, want := range map[int][]Severity{2: {Problem}, 3: nil, 4: {Note}, 5: nil, 30: {Note}, 31: nil, 32: {Problem}} {
		q := &quorum{need: n/2 + 1}
		for i := range n {
			q.nodes = append(q.nodes, Config{Addr: fmt.Sprintf("h%d:1", i)})
		}
		q.size()
		var got []Severity
		for _, f := range q.found {
			got = append(got, f.Severity)
			if refused := strings.Contains(f.Consequence, "refuses"); refused != (f.Severity == Problem) {
				t.Errorf("%d nodes: %+v", n, f)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d nodes: %v, want %v: %+v", n, got, want, q.found)
		}
	}
}

// A node that is further away than it is waited for has no say.
func TestNodesThatAreTooFarAway(t *testing.T) {
	trips := func(ms ...int) *quorum {
		q := &quorum{need: len(ms)/2 + 1}
		for i, n := range ms {
			addr := fmt.Sprint("n", i)
			q.nodes = append(q.nodes, Config{Addr: addr, TTL: 200 * time.Millisecond}) // waited for 50 ms
			q.there = append(q.there, &node{addr: addr, pings: []time.Duration{time.Duration(n) * time.Millisecond}})
		}
		return q
	}
	for _, c := range []struct {
		q    *quorum
		want []Severity
	}{
		{trips(1, 1, 1), nil},
		{trips(1, 30, 1), []Severity{Note}},
		{trips(1, 1, 60), []Severity{Warning}},
		{trips(1, 60, 60), []Severity{Problem}},
		{trips(1, 30, 30, 60, 1), []Severity{Warning, Note}},
	} {
		c.q.near()
		var got []Severity
		for _, f := range c.q.found {
			got = append(got, f.Severity)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v, want %v", c.q.found, c.want)
		}
	}
}
