// Package mutants has locks that are broken on purpose. The gate's tests must fail with each of them. Campaigns must find
// some of every kind of lock: a campaign that finds nothing proves something only if it would have found these.
// The library's own mutants are built from its sources with a few lines changed on the way to the compiler. The
// others, which people write and articles warn of, are in naiveworker.
package mutants

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Mutant is a broken lock.
type Mutant struct {
	Name  string
	About string // what is broken
	Edits []overlay.Edit
	Naive string // a lock of naiveworker; "" for the library with Edits
	// Each of Tests must fail with the mutant. Naive locks have none.
	Tests []Test
	// If there are Rules, campaigns must find one of them broken. Other findings do not count.
	Rules   []campaign.Rule
	Subject campaign.Subject // the kind of lock; the mutex if nil
	Kinds   []string         // faults that reveal it; none: it fails without faults
}

// Test is a test of a package in tests or, if the name begins with "../", beside it. make gate runs it, with -short.
type Test struct{ Package, Name string }

// mutant returns a broken library that these tests find.
func mutant(name, about string, tests []Test, edits ...overlay.Edit) Mutant {
	return Mutant{Name: name, About: about, Tests: tests, Edits: edits}
}

// by returns tests, each named by its package, a dot and its name.
func by(names ...string) (tests []Test) {
	for _, name := range names {
		i := strings.LastIndex(name, ".Test")
		tests = append(tests, Test{name[:i], name[i+1:]})
	}
	return tests
}

// hunted returns m as one that campaigns of a kind of lock, with these faults, find because of the rules, too.
func (m Mutant) hunted(subject campaign.Subject, kinds []string, rules ...campaign.Rule) Mutant {
	m.Subject, m.Kinds, m.Rules = subject, kinds, rules
	return m
}

// naiveLock returns a lock of naiveworker with that name.
func naiveLock(name, about string, kinds []string, rules ...campaign.Rule) Mutant {
	return Mutant{Name: name, About: about, Naive: name}.hunted(nil, kinds, rules...)
}

// Verdict is the outcome of a test with a mutant, or of a campaign against it.
type Verdict struct {
	By         string // the test's package and name, or the campaign's seed
	Found      bool
	Histories  int // of a campaign, played until then
	Violations map[campaign.Rule]int
	Took       time.Duration
}

const naiveWorker = "github.com/holdfast-go/holdfast/tests/mutants/naiveworker"

// histories bounds a campaign; most mutants are found within ten, some within a few hundred.
const histories = 2000

// Hunt runs a mutant's tests, and campaigns against it, once for each seed, until one does not find it.
func Hunt(ctx context.Context, m Mutant, servers []server.Binary, seeds ...uint64) (verdicts []Verdict, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", m.Name, err)
		}
	}()
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	list, err := overlay.Write(dir, m.Edits...)
	if err != nil {
		return nil, err
	}
	for _, test := range m.Tests {
		v, err := test.examine(ctx, list)
		if err != nil {
			return verdicts, err
		}
		verdicts = append(verdicts, v)
	}
	if len(m.Rules) == 0 {
		return verdicts, nil
	}
	cfg := campaign.Config{
		Servers: servers, Lanes: 8, Histories: histories,
		Subject: m.Subject, Kinds: m.Kinds, Calm: len(m.Kinds) == 0, StopAt: m.Rules,
		BuildArgs: []string{"-overlay", list},
	}
	if m.Subject != nil {
		cfg.Lanes /= m.Subject.Nodes()
	}
	if m.Naive != "" {
		cfg.Worker = naiveWorker
		cfg.BuildArgs = []string{"-ldflags", "-X main.which=" + m.Naive}
	}
	binary, remove, err := campaign.Build(ctx, cfg)
	if err != nil {
		return verdicts, err
	}
	defer remove()
	cfg.Binary = binary
	for _, cfg.Seed = range seeds {
		v, err := hunt(ctx, m, cfg)
		if err != nil {
			return verdicts, err
		}
		verdicts = append(verdicts, v)
		if !v.Found {
			break
		}
	}
	return verdicts, nil
}

func hunt(ctx context.Context, m Mutant, cfg campaign.Config) (Verdict, error) {
	report, err := campaign.Run(ctx, cfg)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{By: fmt.Sprint("campaign ", cfg.Seed), Histories: report.Histories, Violations: map[campaign.Rule]int{}, Took: report.Took}
	for _, e := range report.Failures {
		for _, f := range e.Findings {
			v.Violations[f.Rule]++
			v.Found = v.Found || slices.Contains(m.Rules, f.Rule)
		}
	}
	return v, nil
}

// examine runs the test against the library as list changes it: a file for -overlay. It returns an error if the test did not run.
func (t Test) examine(ctx context.Context, list string) (Verdict, error) {
	begun := time.Now()
	// A test that hangs has found the mutant. Without a mutant, every test takes less than a tenth of the timeout.
	cmd := exec.CommandContext(ctx, "go", "test", "-short", "-count=1", "-v", "-vet=off", "-timeout", "3m", "-overlay", list, "-run", "^"+t.Name+"$", path.Join("github.com/holdfast-go/holdfast/tests", t.Package))
	cmd.Env = append(os.Environ(), "HOLDFAST_TEST_SERVERS=") // the server of PATH, as in the gate
	out, err := cmd.CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("--- FAIL: "+t.Name)) && !bytes.Contains(out, []byte("running tests:\n\t\t"+t.Name)) {
		return Verdict{}, fmt.Errorf("%s: %w: %s", t.Name, err, out)
	}
	if bytes.Contains(out, []byte("--- SKIP: "+t.Name+" ")) {
		return Verdict{}, fmt.Errorf("%s is skipped with -short, as in make gate, so it finds nothing there: %s", t.Name, out)
	}
	return Verdict{By: t.Package + "." + t.Name, Found: err != nil, Took: time.Since(begun)}, nil
}

// All are the mutants. Each family has a file of its name.
var All = slices.Concat(
	leases, waiting, fences, dataloss, free, tickets, breaks, shares, kinds, quorum, parties, observers, naive,
)

// Short names for the constructors that most of the lists consist of. The places are markers in the library's
// sources: "mutants: release-owner".
var (
	line   = overlay.Line
	part   = overlay.Part
	insert = overlay.Insert
)

// byScript makes all releases go by script, for mutants of those scripts.
var byScript = insert("native-release", "if true {\n\treturn false, false\n}")

// paused are the faults that reveal a holder which does not know that its lease is over.
var paused = []string{"process-pause-long", "server-pause-long"}
