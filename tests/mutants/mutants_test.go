package mutants

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// rounds is how many campaigns of a soak must find each mutant.
const rounds = 10

// HOLDFAST_MUTANTS names the mutants to hunt, with commas; "all" is all, which a soak hunts, too.
func chosen(t *testing.T) []Mutant {
	text := os.Getenv("HOLDFAST_MUTANTS")
	switch {
	case text == "all", text == "" && soak.Long():
		return All
	case text == "":
		t.Skip("SKIPPED: part of make mutants, which sets HOLDFAST_MUTANTS")
	}
	var some []Mutant
	for _, name := range strings.Split(text, ",") {
		i := slices.IndexFunc(All, func(m Mutant) bool { return m.Name == name })
		if i < 0 {
			t.Fatalf("there is no mutant %q", name)
		}
		some = append(some, All[i])
	}
	return some
}

// atOnce bounds how many mutants are hunted at the same time: campaigns mostly wait.
const atOnce = 4

// Every mutant is found, whatever the seed.
func TestMutantsAreFoundOut(t *testing.T) {
	mutants, servers, times := chosen(t), server.Binaries(t), 1
	if soak.Long() {
		times = rounds
	}
	begun, places := time.Now(), make(chan struct{}, atOnce)
	var mu sync.Mutex
	found, hunts, slowest := 0, 0, 0
	t.Run("hunts", func(t *testing.T) {
		for _, m := range mutants {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				places <- struct{}{}
				defer func() { <-places }()
				seeds := make([]uint64, times)
				for i := range seeds {
					seeds[i] = rand.Uint64N(1 << 53)
				}
				verdicts, err := Hunt(t.Context(), m, servers, seeds...)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				hunts += len(verdicts)
				for _, v := range verdicts {
					if !v.Found && v.Histories == 0 {
						t.Errorf("%s: %s passes with it. Tests must name tests that fail", m.About, v.By)
						continue
					}
					if !v.Found {
						t.Errorf("%s: not found out by %s, in %d histories, where %v was found", m.About, v.By, v.Histories, v.Violations)
						continue
					}
					found++
					slowest = max(slowest, v.Histories)
					if t.Logf("found out by %s, %s", v.By, v.Took.Round(time.Millisecond)); v.Histories > 0 {
						t.Logf("in %d histories: %v", v.Histories, v.Violations)
					}
				}
			})
		}
	})
	t.Logf("mutants: %d of %d tests and campaigns found theirs, of %d, within %d histories, in %s", found, hunts, len(mutants), slowest, time.Since(begun).Round(time.Second))
}

// A sound lock is acquitted: the naive lock that is written correctly. Campaigns of the library acquit the library.
func TestTheInnocentAreAcquitted(t *testing.T) {
	soak.Nightly(t)
	calm := 12
	if soak.Long() {
		calm = 1000
	}
	report, err := campaign.Run(t.Context(), campaign.Config{
		Servers: server.Binaries(t), Histories: calm, Calm: true, Worker: naiveWorker,
		StopAt: []campaign.Rule{campaign.Overlap, campaign.Fences, campaign.Resource},
	})
	expect.OK(t, err)
	for _, e := range report.Failures {
		for _, f := range e.Findings {
			// It has no queue, and a cancelled acquire may leave a lock.
			if f.Rule != campaign.Order && f.Rule != campaign.Wakeup && f.Rule != campaign.Leak {
				t.Errorf("the naive lock that takes and gives as it should: %v", f)
			}
		}
	}
}
