package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Summary adds up the results of worlds.
type Summary struct {
	Worlds     int
	Hours      float64 // simulated
	Quorums    int     // worlds with several servers
	Grants     int
	Passed     int // waits for a latch or a phase of a barrier
	Native     int // acquires by the server's own commands
	Faults     map[string]int
	Outcomes   map[string]int // leases that were not released, by reason
	Wild       int            // worlds outside the model
	Overlaps   int            // in these
	Violations int
}

// Add adds a world's result.
func (s *Summary) Add(r Result) {
	s.Worlds++
	s.Hours += r.Simulated.Hours()
	if r.Nodes > 0 {
		s.Quorums++
	}
	s.Grants += r.Grants
	s.Passed += r.Passed
	s.Native += r.Native
	for _, m := range []struct{ to, from *map[string]int }{{&s.Faults, &r.Faults}, {&s.Outcomes, &r.Outcomes}} {
		if *m.to == nil {
			*m.to = map[string]int{}
		}
		for k, n := range *m.from {
			(*m.to)[k] += n
		}
	}
	if r.Temper == Wild {
		s.Wild++
	}
	s.Overlaps += r.Overlaps
	s.Violations += len(r.Violations)
}

// String returns text for people.
func (s *Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.1f h simulated: %d worlds, %d of them of quorums, %d violations, %d grants, ",
		s.Hours, s.Worlds, s.Quorums, s.Violations, s.Grants)
	fmt.Fprintf(&b, "%d waits at latches and barriers, %d native acquires", s.Passed, s.Native)
	for _, m := range []map[string]int{s.Faults, s.Outcomes} {
		sep := "; "
		for _, k := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(&b, "%s%d %s", sep, m[k], k)
			sep = ", "
		}
	}
	fmt.Fprintf(&b, "; %d overlaps in %d worlds outside the model", s.Overlaps, s.Wild)
	return b.String()
}
