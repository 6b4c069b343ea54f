package campaign

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
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

// A campaign first draws every kind alone. In each later round it draws every kind and every pair once. Kinds whose history does not
// count are drawn again.
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
			expect.Equal(t, "times that "+names+" was drawn", n, 1)
		}
	}
	one := newCoverage(kinds[:1], 1)
	for range 3 {
		expect.Same(t, "the only kind", one.draw(), kinds[:1])
	}
	expect.Equal(t, "of no kinds are drawn", len(newCoverage(nil, 1).draw()), 0)
	c.again([]*Kind{kinds[1], kinds[3]})
	expect.Same(t, "drawn again", c.draw(), []*Kind{kinds[1], kinds[3]})
}
