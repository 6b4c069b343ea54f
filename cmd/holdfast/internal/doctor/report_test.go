package doctor

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
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

// Quorums have 3 to 31 nodes. An even number is no problem, but does not let more nodes fail.
func TestNumbersOfNodes(t *testing.T) {
	for n, want := range map[int][]Severity{2: {Problem}, 3: nil, 4: {Note}, 5: nil, 30: {Note}, 31: nil, 32: {Problem}} {
		q := &quorum{addrs: make([]string, n), need: n/2 + 1}
		found := q.checkSize()
		for _, f := range found {
			if refused := strings.Contains(f.Consequence, "refuses"); refused != (f.Severity == Problem) {
				t.Errorf("%d nodes: %+v", n, f)
			}
		}
		if got := severities(found); !slices.Equal(got, want) {
			t.Errorf("%d nodes: %v, want %v: %+v", n, got, want, found)
		}
	}
}

// The vote of a node does not count if its round trip takes longer than the library waits: a quarter of the TTL, or 2 s.
func TestNodesThatAreTooFarAway(t *testing.T) {
	for _, c := range []struct {
		ttl, roundTrip time.Duration
		late           bool
	}{
		{200 * time.Millisecond, 0, false}, {200 * time.Millisecond, 50 * time.Millisecond, false},
		{200 * time.Millisecond, 60 * time.Millisecond, true},
		{time.Hour, 2 * time.Second, false}, {time.Hour, 2100 * time.Millisecond, true},
	} {
		n := &server{e: &examination{Config: Config{TTL: c.ttl}}, roundTrip: c.roundTrip}
		if n.isLate() != c.late {
			t.Errorf("TTL %s, round trip %s: late is %t", c.ttl, c.roundTrip, !c.late)
		}
	}
}

func severities(found []Finding) (all []Severity) {
	for _, f := range found {
		all = append(all, f.Severity)
	}
	return all
}

// simulate reads a server's clock 20 times within a second, over a connection with random delays of at most delay.
// server returns what the clock shows at a time.
func simulate(rng *rand.Rand, delay time.Duration, server func(time.Duration) time.Duration) (all []sample) {
	now := time.Duration(0)
	for range 20 {
		there, back := time.Duration(rng.Int64N(int64(delay))), time.Duration(rng.Int64N(int64(delay)))
		all = append(all, sample{now, now + there + back, server(now + there)})
		now += there + back + 50*time.Millisecond
	}
	return all
}

func TestEstimate(t *testing.T) {
	for name, c := range map[string]struct {
		server  func(time.Duration) time.Duration
		offset  time.Duration // at the beginning; the estimate may differ by its doubt and by drifted
		jump    time.Duration // to be found, less what is not certain
		saw     Severity
		drifted time.Duration
	}{
		"the same":      {func(t time.Duration) time.Duration { return t }, 0, 0, OK, 0},
		"ahead":         {func(t time.Duration) time.Duration { return t + 300*time.Millisecond }, 300 * time.Millisecond, 0, OK, 0},
		"hours behind":  {func(t time.Duration) time.Duration { return t - 2*time.Hour }, -2 * time.Hour, 0, Note, 0},
		"jumps forward": {jump(200 * time.Millisecond), 0, 200 * time.Millisecond, Problem, 200 * time.Millisecond},
		"jumps back":    {jump(-time.Minute), 0, -time.Minute, Warning, time.Minute},
		"slewed a bit":  {func(t time.Duration) time.Duration { return t + t/2000 }, 0, 0, OK, time.Millisecond},
	} {
		for seed := range uint64(200) {
			samples := simulate(rand.New(rand.NewPCG(seed, 1)), 3*time.Millisecond, c.server)
			w := estimate(samples)
			if off := (w.offset - c.offset).Abs(); off > w.doubt+c.drifted {
				t.Errorf("%s, seed %d: offset %s ± %s, want %s", name, seed, w.offset, w.doubt, c.offset)
			}
			if c.jump == 0 && w.jump != 0 {
				t.Errorf("%s, seed %d: jump %s, but there is none", name, seed, w.jump)
			}
			// The certain part of a jump is smaller than the jump, by what round trips and slewing may explain.
			if c.jump != 0 && (w.jump.Abs() > c.jump.Abs() || (w.jump-c.jump).Abs() > uncertain(samples)) {
				t.Errorf("%s, seed %d: jump %s, want %s less %s at most", name, seed, w.jump, c.jump, uncertain(samples))
			}
			if got := judgeClock(w); got.Severity != c.saw {
				t.Errorf("%s, seed %d: %+v", name, seed, got)
			}
		}
	}
}

// uncertain returns by how much a jump between two samples may exceed its certain part: the errors of both offsets, once in the samples and
// once in what estimate subtracts, and the effect of slewing.
func uncertain(samples []sample) (most time.Duration) {
	for i := 1; i < len(samples); i++ {
		s, t := samples[i-1], samples[i]
		most = max(most, 2*(s.doubt()+t.doubt())+time.Duration(maxSlew*float64(t.received-s.sent)))
	}
	return most
}

func jump(d time.Duration) func(time.Duration) time.Duration {
	return func(t time.Duration) time.Duration {
		if t > 400*time.Millisecond {
			return t + d
		}
		return t
	}
}

// Over a slow connection, no jump is found unless there is one.
func TestEstimateOverASlowConnection(t *testing.T) {
	for seed := range uint64(500) {
		w := estimate(simulate(rand.New(rand.NewPCG(seed, 2)), 200*time.Millisecond, func(t time.Duration) time.Duration { return t }))
		if f := judgeClock(w); f.Severity != OK || w.offset.Abs() > w.doubt {
			t.Errorf("seed %d: %+v, offset %s ± %s", seed, f, w.offset, w.doubt)
		}
	}
}

// A single reading gives only an offset.
func TestEstimateOfOneSample(t *testing.T) {
	w := estimate([]sample{{0, 2 * time.Millisecond, 5 * time.Millisecond}})
	if w.offset != 4*time.Millisecond || w.doubt < time.Millisecond || w.jump != 0 {
		t.Errorf("%+v", w)
	}
}

func TestCompareClocks(t *testing.T) {
	const ttl = 15 * time.Second
	near := map[string]watch{"a": {offset: 0, doubt: 1e6}, "b": {offset: 150e6, doubt: 1e6}, "c": {offset: 70e6, doubt: 1e6}}
	if found := compareClocks(near, ttl); found != nil {
		t.Errorf("within what a lease can spare: %+v", found)
	}
	far := map[string]watch{"a": {offset: -100e6, doubt: 1e6}, "b": {offset: 100e6, doubt: 1e6}, "c": {}}
	found := compareClocks(far, ttl)
	if len(found) != 1 || found[0].Severity != Warning || !slices.Equal(found[0].Servers, []string{"b", "a"}) {
		t.Errorf("%+v", found)
	}
	vague := map[string]watch{"a": {offset: -100e6, doubt: 50e6}, "b": {offset: 100e6, doubt: 50e6}}
	if found := compareClocks(vague, ttl); found != nil {
		t.Errorf("not certain: %+v", found)
	}
}
