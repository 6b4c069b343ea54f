package campaign

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/race"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// Fault: Eight processes of 16 goroutines want one lock. Holds never overlap, fences rise, nobody in the queue is
// overtaken, and all get equally many turns.
func TestStorm(t *testing.T) {
	soak.Nightly(t)
	cfg := Config{}
	if race.Detector {
		cfg.BuildArgs = []string{"-race"}
	}
	binary, remove, err := Build(t.Context(), cfg)
	expect.OK(t, err)
	t.Cleanup(remove)
	expect.OK(t, cfg.fill())
	cfg.Binary = binary
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			if !soak.Long() { // it judges times, so servers take turns
				t.Parallel()
			}
			l := &lane{cfg: &cfg, binary: bin}
			defer l.close()
			for active := soak.Duration(t); !storm(t, l, active); active *= 2 {
			}
		})
	}
}

// storm makes processes compete for a lock, and judges their history. It returns false if there were too few grants to tell whether all
// goroutines get equally many.
func storm(t *testing.T, l *lane, active time.Duration) bool {
	t.Helper()
	const processes, goroutines, least = 8, 16, 16
	p := &Plan{
		Server: l.binary.Name, Mode: Default, Kinds: []string{}, Active: active, LongestTTL: longTTL,
		Names: []Name{{Name: "a", Key: "holdfast:{a}", Queue: "holdfast:{a}:q"}},
	}
	for n := range uint64(processes) {
		p.Processes = append(p.Processes, worker.Script{
			Setting: worker.Setting{MaxTTL: longTTL, CommandTimeout: 4 * time.Second, RetryTimeout: 8 * time.Second},
			Seed:    n, Goroutines: goroutines, Hold: 2 * time.Millisecond, Think: 10 * time.Millisecond,
			Wants: []worker.Want{{Name: "a", TTL: longTTL, Weight: 1}},
		})
	}
	began := time.Now()
	r := expect.Of(l.play(t.Context(), p)).OK(t)
	if wrong := Judge(r, Mutex{}).Findings; len(wrong) > 0 || !r.Ordered {
		t.Fatalf("%d violations, such as %v; the server has told of all grants: %t", len(wrong), wrong[:min(len(wrong), 1)], r.Ordered)
	}
	if len(r.failures) > 0 && machine.HeldUp(began) < 300*time.Millisecond {
		t.Errorf("%d calls failed, such as %v", len(r.failures), r.failures[0])
	}

	type routine struct{ process, goroutine int }
	turns := map[routine][]history.Event{}
	var from int64 // when everyone has had a turn
	for _, e := range r.Events {
		who := routine{e.Process, e.Goroutine}
		if e.Granted == 0 || e.Granted > r.FaultsOver {
			continue
		}
		if turns[who] == nil {
			from = max(from, e.Granted)
		}
		turns[who] = append(turns[who], e)
	}
	var waits []time.Duration
	var sum time.Duration
	var squares float64
	for _, all := range turns {
		before := len(waits)
		for _, e := range all {
			if e.Granted > from {
				waits = append(waits, time.Duration(e.Granted-e.Asked))
				sum += waits[len(waits)-1]
			}
		}
		n := float64(len(waits) - before)
		squares += n * n
	}
	grants := float64(len(waits))
	if len(turns) < processes*goroutines || grants < least*processes*goroutines {
		t.Logf("%d of %d goroutines had a turn, and %d later ones, in %s", len(turns), processes*goroutines, len(waits), active)
		return false
	}
	jain, mean := grants*grants/(float64(len(turns))*squares), sum/time.Duration(len(waits))
	slices.Sort(waits)
	long, _ := slices.BinarySearch(waits, mean*3/2)
	t.Logf("%d processes of %d goroutines, %s: %d grants; mean wait %s, longest %s, %d above 1.5 of the mean; Jain %.3f",
		processes, goroutines, active, len(waits), mean.Round(time.Microsecond), waits[len(waits)-1].Round(time.Microsecond), len(waits)-long, jain)
	expect.AtLeast(t, "Jain's index of fairness", jain, 0.95)
	// This is judged only in a soak: if the machine stalls in the middle of a turn, those that the turn should have served wait for
	// another round.
	if soak.Long() && long < len(waits) {
		t.Errorf("%d of %d waits were more than 1.5 times the mean of %s", len(waits)-long, len(waits), mean)
	}
	return true
}
