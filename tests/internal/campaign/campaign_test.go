package campaign

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

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
