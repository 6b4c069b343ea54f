package campaign

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// passes makes the party that joined as the nth step pass a phase.
func (r *Record) passes(nth, phase uint64, begun, ended int64) *Record {
	return r.step(worker.Step{Do: worker.Await, Party: nth, Begun: begun, Ended: ended, Answer: worker.Answer{Outcome: worker.Achieved, Phase: phase}})
}

// breaks tells the party that a phase is broken.
func (r *Record) breaks(nth, phase uint64, died bool, begun, ended int64) *Record {
	return r.step(worker.Step{Do: worker.Await, Party: nth, Begun: begun, Ended: ended, Answer: worker.Answer{Outcome: worker.Broken, Phase: phase, Died: died}})
}

// cancels makes the party give up.
func (r *Record) cancels(nth uint64, begun, ended int64) *Record {
	return r.step(worker.Step{Do: worker.Await, Party: nth, Begun: begun, Ended: ended, Answer: worker.Answer{Outcome: worker.Undone}})
}

func TestJudgeOfBarriers(t *testing.T) {
	const (
		achieved, unsure, lost = worker.Achieved, worker.Unsure, worker.Lost

		died, left = true, false
	)
	// The parties 1, 2 and 3.
	full := func(kinds ...string) *Record {
		return tell(kinds...).joins(1, 2, 500).joins(1, 2, 500).joins(1, 2, 500)
	}
	first := func(kinds ...string) *Record {
		return full(kinds...).passes(1, 1, 10, 20).passes(2, 1, 11, 21).passes(3, 1, 12, 22)
	}
	leaves := func(r *Record, nth uint64, told worker.Outcome, begun, ended int64) *Record {
		return r.ends(nth, false, told, begun, ended, 500)
	}
	for name, c := range map[string]struct {
		record *Record
		guilty bool
	}{
		"all pass":                             {first(), false},
		"all pass two phases":                  {first().passes(1, 2, 30, 50).passes(2, 2, 31, 51).passes(3, 2, 49, 52), false},
		"one comes late to hear of it":         {full().cancels(1, 10, 12).passes(2, 1, 11, 20).passes(3, 1, 14, 20).passes(1, 1, 30, 40), false},
		"one has not heard of it":              {full("process-killed").passes(2, 1, 11, 20).passes(3, 1, 14, 20).step(worker.Step{Do: worker.Await, Party: 1, Begun: 10}), false},
		"one leaves":                           {leaves(first(), 3, achieved, 25, 28).breaks(1, 2, left, 30, 40).breaks(2, 2, left, 30, 40), false},
		"another takes its place":              {leaves(first(), 3, achieved, 25, 28).breaks(1, 2, left, 30, 40).breaks(2, 2, left, 30, 40).joins(29, 30, 500).passes(1, 3, 50, 60).passes(2, 3, 50, 60).passes(10, 3, 50, 60), false},
		"several phases break":                 {leaves(leaves(first(), 3, achieved, 25, 28).breaks(1, 2, left, 30, 40), 2, achieved, 42, 44).breaks(1, 7, left, 45, 50), false},
		"one dies":                             {first("process-pause").breaks(1, 2, died, 30, 600).breaks(2, 2, died, 30, 600), false},
		"one whose join was not answered dies": {first("lost-reply").asks(worker.Join, unsure, 5, 15).breaks(1, 2, died, 30, 40), false},
		"one whose release failed leaves":      {leaves(first("lost-reply"), 3, worker.Undone, 23, 24).breaks(1, 2, left, 30, 40), false},
		"phases begin anew":                    {leaves(leaves(leaves(first(), 1, achieved, 30, 31), 2, achieved, 30, 31), 3, achieved, 30, 31).joins(40, 41, 500).joins(40, 41, 500).joins(40, 41, 500).passes(10, 1, 50, 60).passes(11, 1, 50, 60).passes(12, 1, 50, 60), false},
		"data is lost":                         {first("flushall").passes(1, 1, 30, 40), false},

		"one too few":                      {full().passes(1, 1, 10, 20).passes(2, 1, 11, 21), true},
		"one comes too late":               {full().passes(1, 1, 10, 20).passes(2, 1, 11, 21).passes(3, 1, 23, 24), true},
		"one was told before another came": {full().passes(1, 1, 10, 20).passes(2, 1, 11, 30).passes(3, 1, 25, 30), true},
		"one of another phase":             {first().passes(1, 2, 30, 50).passes(2, 2, 31, 51).passes(3, 3, 49, 52), true},
		"one stands for two":               {tell().joins(1, 2, 500).joins(1, 2, 500).passes(1, 1, 10, 20).passes(2, 1, 10, 20).passes(2, 2, 30, 40).passes(1, 2, 25, 40), true},
		"a phase twice":                    {first().passes(1, 1, 30, 40).passes(2, 1, 30, 40).passes(3, 1, 30, 40), true},
		"a phase is left out":              {first().passes(1, 3, 30, 40).passes(2, 3, 30, 40).passes(3, 3, 30, 40), true},
		"a phase falls":                    {leaves(first(), 3, achieved, 25, 28).breaks(1, 2, left, 30, 40).breaks(1, 1, left, 50, 60), true},
		"broken for one, passed by others": {leaves(full().passes(1, 1, 10, 20).passes(2, 1, 11, 21).cancels(3, 12, 22).breaks(3, 1, left, 30, 40), 2, achieved, 23, 24), true},
		"broken by nobody":                 {first().breaks(1, 2, left, 30, 40), true},
		"broken by itself":                 {leaves(full().breaks(1, 1, left, 10, 20), 1, achieved, 15, 18), true},
		"broken by one who left before":    {leaves(full(), 3, achieved, 4, 5).breaks(1, 1, left, 10, 20).breaks(1, 2, left, 30, 40), true},
		"dead, but it had left":            {leaves(first(), 3, achieved, 25, 28).breaks(1, 2, died, 30, 40), true},
		"left, but it had died":            {leaves(first("process-pause"), 3, lost, 600, 601).breaks(1, 2, left, 30, 700), true},
		"dead too early":                   {first("process-pause").breaks(1, 2, died, 30, 400), true},
	} {
		convicted(t, name, c.record, Barrier{}, Phases, c.guilty)
	}
}
