package campaign

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

func TestPlansFollowFromTheirSeed(t *testing.T) {
	pair := expect.Of(Kinds(&Config{}, "stranger", "process-killed")).OK(t)
	seen := map[string]bool{}
	for n := range uint64(100) {
		text, err := json.Marshal(NewPlan(n/2, "some", Default, Mutex{}, pair))
		if seen[string(text)] != (n%2 == 1) || err != nil {
			t.Errorf("seed %d: no plan of its own, or two: %v", n/2, err)
		}
		seen[string(text)] = true
	}
}

func TestPlansMakeRoomForTheirFaults(t *testing.T) {
	for _, k := range kinds {
		long := 0
		for seed := range uint64(100) {
			p := NewPlan(seed, "some", Default, Mutex{}, []*Kind{k})
			if p.LongestTTL == longTTL {
				long++
			}
			if !slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == k.Name && f.At > 0 && f.At < p.Active }) {
				t.Errorf("%s, seed %d: it does not happen: %+v", k.Name, seed, p.Faults)
			}
			if k.Name == "stranger" && slices.ContainsFunc(p.Names, func(n Name) bool { return !n.Shared }) {
				t.Errorf("seed %d: a lock that a stranger cannot want", seed)
			}
		}
		if k.Slow != (long == 0) {
			t.Errorf("%s: %d of 100 plans have long leases", k.Name, long)
		}
	}
}

// Every kind of lock has suitable plans.
func TestPlansSuitTheirSubject(t *testing.T) {
	for _, s := range Subjects {
		chosen := expect.Of(Kinds(&Config{Subject: s})).OK(t)
		minority, all := 0, 0
		for seed := range uint64(200) {
			p := NewPlan(seed, "some", Strict, s, []*Kind{chosen[seed%uint64(len(chosen))]})
			for _, w := range slices.Concat(p.Processes[0].Wants, p.Processes[0].Finally) {
				names := map[string]bool{}
				for _, name := range w.Names() {
					names[name] = true
				}
				if len(names) != len(w.With)+1 || (s.Name() == "multi" && w.Share == worker.Whole) != (s.Name() == "multi" && len(names) == 1) {
					t.Errorf("%s, seed %d: %+v", s.Name(), seed, w)
				}
				if w.NodeTimeout > w.TTL/4 || w.TTL > p.Processes[0].MaxTTL {
					t.Errorf("%s, seed %d: it would be refused: %+v", s.Name(), seed, w)
				}
			}
			for _, f := range p.Faults {
				switch {
				case f.Node > s.Nodes(), f.Node == 0 && s.Nodes() > 1 && slices.Contains(processKinds, p.kinds[0]):
					t.Errorf("%s, seed %d: %+v", s.Name(), seed, f)
				case f.Node > 0:
					minority++
				default:
					all++
				}
			}
		}
		if all == 0 || (minority == 0) == (s.Nodes() > 1) {
			t.Errorf("%s: %d faults of one server of several, %d of all", s.Name(), minority, all)
		}
	}
	expect.Fails(t, "a quorum with notifications that get lost", expect.ErrOf(Kinds(&Config{Subject: Quorum{}}, "deaf-subscriptions")))
}

func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	within := 0
	for _, k := range kinds {
		if seen[k.Name] {
			t.Errorf("two kinds are named %s", k.Name)
		}
		seen[k.Name] = true
		if k.Within(Default) {
			within++
		}
		if k.Within(Default) && !k.Within(Strict) {
			t.Errorf("%s is within the model of the default mode only", k.Name)
		}
	}
	expect.AtLeast(t, "kinds are within the model", within, 25)
	for names, within := range map[string]bool{"flushall": true, "stranger": true, "flushall lost-reply": true, "flushall stranger": false, "older-restart stranger": false} {
		found, err := Kinds(&Config{}, strings.Fields(names)...)
		if p := (&Plan{Mode: Strict, kinds: found}); err != nil || p.Within() != within {
			t.Errorf("%s, in Strict mode: within the model %v, %v", names, p.Within(), err)
		}
	}
	for _, name := range []string{"no-such-kind", "clock-jump"} {
		expect.Fails(t, name, expect.ErrOf(Kinds(&Config{}, name)))
	}
}

// A campaign begins with every kind alone, and goes on with all kinds and pairs, of which none comes again before all were drawn. What
// does not count is drawn again.
func TestCoverage(t *testing.T) {
	c := newCoverage(kinds[:8], 1) // 28 pairs
	for _, k := range kinds[:8] {
		expect.Equal(t, "rounds that are over", c.over(), 0)
		expect.Same(t, "a kind alone", c.draw(), []*Kind{k})
	}
	for round := range 3 {
		times := map[string]int{}
		for c.over() == round+1 {
			var names []string
			for _, k := range c.draw() {
				names = append(names, k.Name)
			}
			times[strings.Join(names, " ")]++
		}
		expect.Equal(t, "combinations, of which one is none", len(times), 8+28+1)
		for names, n := range times {
			expect.Equal(t, "times that "+names+" was drawn", n, max(1, map[string]int{"": 2}[names]))
		}
	}
	c.again([]*Kind{kinds[1], kinds[3]})
	expect.Same(t, "drawn again", c.draw(), []*Kind{kinds[1], kinds[3]})
}

func TestMain(m *testing.M) {
	backend.AtOnce(4) // histories wait most of the time
	code := m.Run()
	for _, remove := range removals {
		remove()
	}
	os.Exit(code)
}

var removals []func()

// ready builds the processes that use this library's locks, once for all campaigns.
var ready = sync.OnceValues(func() (string, error) {
	binary, remove, err := Build(context.Background(), Config{})
	if err == nil {
		removals = append(removals, remove)
	}
	return binary, err
})

// A slice of a campaign has every kind of fault alone, on every kind of server. In a soak it has as much as
// there is time for.
//
// Fault: Every kind of fault, alone and in pairs, at random moments, on every kind of server. One holder, rising
// fences, order, nobody left waiting, nothing left behind, stale writes refused.
func TestSlice(t *testing.T) {
	soak.Nightly(t)
	t.Parallel()
	// For some kinds it is a matter of luck whether a fault finds what it wants to hit.
	cfg := Config{Dir: t.TempDir(), Lanes: 8, Once: true, Histories: 10 * len(kinds)}
	if soak.Long() {
		cfg.Once, cfg.Histories, cfg.For = false, 0, soak.Duration(t)
	}
	report := judged(t, cfg)
	for _, k := range report.kinds {
		if x := report.rows[k.Name]; x == nil || x.struck == 0 {
			t.Errorf("%s never came about in %d histories", k.Name, report.Histories)
		}
	}
	expect.AtLeast(t, "grants", report.Grants, report.Histories)
	if report.StaleWrites != report.StaleRefused {
		t.Errorf("of %d stale writes %d were refused", report.StaleWrites, report.StaleRefused)
	}
}

// Every kind of lock has histories. Soaks and slices have longer campaigns of those that TestSlice leaves out.
func TestEverySubjectIsPlayed(t *testing.T) {
	soak.Nightly(t)
	t.Parallel()
	for _, s := range Subjects {
		t.Run(s.Name(), func(t *testing.T) {
			t.Parallel()
			cfg := Config{Dir: t.TempDir(), Lanes: 2, Histories: 2, Subject: s, Kinds: []string{"server-pause", "process-killed"}}
			began := time.Now()
			report := judged(t, cfg)
			// A history lasts for a second. On a busy machine few locks are granted in that time, so more
			// histories are played until there are enough grants.
			for cfg.Histories < 30 && report.Grants < 5 && !t.Failed() {
				cfg.Histories *= 2
				report = judged(t, cfg)
			}
			if report.Histories+report.Void < 2 || report.Grants < 5 {
				t.Errorf("%d histories, %d void, %d grants\n%s", report.Histories, report.Void, report.Grants, machine.Report(began))
			}
		})
	}
}

func TestACampaignThatDecidesTooLittleIsInconclusive(t *testing.T) {
	for _, c := range []struct {
		unknown, histories int
		want               bool
	}{{0, 0, false}, {1, 1, false}, {1, 2, false}, {2, 7, true}, {2, 8, false}, {5, 20, false}, {6, 20, true}} {
		expect.Equal(t, fmt.Sprintf("%d of %d", c.unknown, c.histories), (&Report{Unknown: c.unknown, Histories: c.histories}).Inconclusive(), c.want)
	}
}

// judged runs a campaign that must find nothing, and shows its report.
func judged(t *testing.T, cfg Config) *Report {
	t.Helper()
	var err error
	if cfg.Binary, err = ready(); err != nil {
		t.Fatal(err)
	}
	report := expect.Of(Run(t.Context(), cfg)).OK(t)
	var text strings.Builder
	expect.OK(t, report.Write(&text))
	t.Log(text.String())
	expect.AtMost(t, "there are violations", report.Violations, 0)
	expect.Equal(t, "checks that were given up", report.Inconclusive(), false)
	return report
}

// A violation is found, and its history is kept, with the command that replays it. tests/mutants has more
// broken locks.
func TestViolationsAreKept(t *testing.T) {
	soak.Nightly(t)
	t.Parallel()
	list := expect.Of(overlay.Write(t.TempDir(), overlay.Line("minted", "return 5, n"))).OK(t)
	report, err := Run(t.Context(), Config{
		Dir: t.TempDir(), Lanes: 4, Histories: 400, StopAt: []Rule{Fences}, Calm: true, BuildArgs: []string{"-overlay", list},
	})
	expect.OK(t, err)
	if len(report.Failures) == 0 {
		t.Fatalf("not found out in %d histories", report.Histories)
	}
	for _, e := range report.Failures {
		text, err := os.ReadFile(filepath.Join(e.Kept, "findings.txt"))
		if err != nil || !strings.HasPrefix(string(text), "go run ./cmd/campaign -replay ") {
			t.Errorf("kept is %.100q, %v", text, err)
		}
	}
}
