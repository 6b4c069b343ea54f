package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Summary adds up the results of worlds.
type Summary struct {
	Worlds     int            `json:"worlds"`
	Hours      float64        `json:"simulated_hours"`
	Busy       float64        `json:"busy_hours"` // in which somebody held or wanted a lock
	Quorums    int            `json:"worlds_of_quorums"`
	Grants     int            `json:"grants"`
	Passed     int            `json:"passed"`   // waits for a latch or a phase of a barrier
	Commands   int            `json:"commands"` // scripts sent through the client library
	Native     int            `json:"native"`   // acquires by the server's own commands
	Faults     map[string]int `json:"faults"`
	Outcomes   map[string]int `json:"outcomes"` // leases that were not released, by reason
	Wild       int            `json:"worlds_outside_the_model"`
	Overlaps   int            `json:"overlaps_outside_the_model"`
	Violations int            `json:"violations"`
	Failed     []uint64       `json:"failed_seeds"`
	Seconds    float64        `json:"seconds"`
	CPU        float64        `json:"cpu_seconds"`
	First      uint64         `json:"first_seed"`
	Replayable bool           `json:"replayable"`
}

// Add adds a world's result.
func (s *Summary) Add(r Result) {
	s.Worlds++
	s.Hours += r.Simulated.Hours()
	s.Busy += r.Busy.Hours()
	if r.Nodes > 0 {
		s.Quorums++
	}
	s.Grants += r.Grants
	s.Passed += r.Passed
	s.Commands += r.Commands
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
	if len(r.Violations) > 0 {
		s.Failed = append(s.Failed, r.Seed)
	}
}

// String returns text for people.
func (s *Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.1f h simulated, %.1f h busy, %.2f h/s", s.Hours, s.Busy, s.Hours/s.Seconds)
	if s.CPU > 0 {
		fmt.Fprintf(&b, " (%.2f h per s of processor time)", s.Hours/s.CPU)
	}
	fmt.Fprintf(&b, ": %d worlds, %d of them of quorums, %d grants (%.0f/h), %d waits at latches and barriers, %d native acquires, %d commands, %d violations",
		s.Worlds, s.Quorums, s.Grants, float64(s.Grants)/s.Hours, s.Passed, s.Native, s.Commands, s.Violations)
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

// JSON returns one line for programs.
func (s *Summary) JSON() string {
	text, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Took sets how long a run took, and how much processor time; 0 if that is unknown.
func (s *Summary) Took(d, cpu time.Duration) { s.Seconds, s.CPU = d.Seconds(), cpu.Seconds() }
