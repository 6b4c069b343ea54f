// Package mutants has locks that are broken on purpose. Campaigns must find each of them: a campaign that finds
// nothing proves something only if it would have found these. If campaigns cannot find a mutant, tests must.
// The library's own mutants are built from its sources with a few lines changed on the way to the compiler. The
// others, which people write and articles warn of, are in naiveworker.
package mutants

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Mutant is a broken lock.
type Mutant struct {
	Name  string
	About string // what is broken
	// Subject is the kind of lock; the mutex if nil.
	Subject campaign.Subject
	Edits   []overlay.Edit
	Naive   string   // a lock of naiveworker; "" for the library with Edits
	Kinds   []string // faults that reveal it; none: it fails without faults
	// Rules are the rules of which it breaks at least one. Other findings do not count.
	Rules []campaign.Rule
	// Tests, if any, take the place of campaigns: each of them must fail with the mutant.
	Tests []Test
}

// Test is a test of a package in tests.
type Test struct{ Package, Name string }

// Verdict is the outcome of a campaign against a mutant.
type Verdict struct {
	Seed       uint64
	Found      bool
	Histories  int // played until then
	Violations map[campaign.Rule]int
	Took       time.Duration
}

const naiveWorker = "github.com/holdfast-go/holdfast/tests/mutants/naiveworker"

// histories bounds a campaign; most mutants are found within ten, some within a few hundred.
const histories = 2000

// Hunt runs campaigns against a mutant, or its tests, once for each seed, until one does not find it.
func Hunt(ctx context.Context, m Mutant, servers []server.Binary, seeds ...uint64) (verdicts []Verdict, err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if len(m.Tests) > 0 {
		return examine(ctx, m, dir, seeds...)
	}
	cfg := campaign.Config{
		Servers: servers, Lanes: 8, Histories: histories,
		Subject: m.Subject, Kinds: m.Kinds, Calm: len(m.Kinds) == 0, StopAt: m.Rules,
	}
	if m.Subject != nil {
		cfg.Lanes /= m.Subject.Nodes()
	}
	if m.Naive != "" {
		cfg.Worker = naiveWorker
		cfg.BuildArgs = []string{"-ldflags", "-X main.which=" + m.Naive}
	} else {
		list, err := overlay.Write(dir, m.Edits...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		cfg.BuildArgs = []string{"-overlay", list}
	}
	binary, remove, err := campaign.Build(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	defer remove()
	cfg.Binary = binary
	for _, cfg.Seed = range seeds {
		v, err := hunt(ctx, m, cfg)
		if err != nil {
			return verdicts, fmt.Errorf("%s: %w", m.Name, err)
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
	v := Verdict{Seed: cfg.Seed, Histories: report.Histories, Violations: map[campaign.Rule]int{}, Took: report.Took}
	for _, e := range report.Failures {
		for _, f := range e.Findings {
			v.Violations[f.Rule]++
			v.Found = v.Found || slices.Contains(m.Rules, f.Rule)
		}
	}
	return v, nil
}

// examine runs a mutant's tests once for each seed.
func examine(ctx context.Context, m Mutant, dir string, seeds ...uint64) (verdicts []Verdict, err error) {
	list, err := overlay.Write(dir, m.Edits...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	for _, seed := range seeds {
		v, begun := Verdict{Seed: seed, Found: true}, time.Now()
		for _, test := range m.Tests {
			cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-overlay", list, "-run", "^"+test.Name+"$", "github.com/holdfast-go/holdfast/tests/"+test.Package)
			out, err := cmd.CombinedOutput()
			if err != nil && !bytes.Contains(out, []byte("--- FAIL: "+test.Name)) {
				return verdicts, fmt.Errorf("%s: %s: %w: %s", m.Name, test.Name, err, out)
			}
			v.Found = v.Found && err != nil
		}
		v.Took = time.Since(begun)
		verdicts = append(verdicts, v)
		if !v.Found {
			break
		}
	}
	return verdicts, nil
}
