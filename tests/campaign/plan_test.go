package campaign

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestPlansFollowFromTheirSeed(t *testing.T) {
	pair, err := Kinds(&Config{}, "stranger", "process-killed")
	if err != nil {
		t.Fatal(err)
	}
	text := func(seed uint64) string {
		b, err := json.Marshal(NewPlan(seed, "some", Default, Mutex{}, pair))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	seen := map[string]bool{}
	for seed := range uint64(50) {
		first, again := text(seed), text(seed)
		if first != again {
			t.Fatalf("seed %d gives two plans", seed)
		}
		seen[first] = true
	}
	if len(seen) != 50 {
		t.Errorf("50 seeds give %d plans", len(seen))
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
	if within < 25 {
		t.Errorf("only %d kinds are within the model", within)
	}
	for _, name := range []string{"no-such-kind", "clock-jump"} {
		if _, err := Kinds(&Config{}, name); err == nil {
			t.Errorf("%s can be had", name)
		}
	}
}
