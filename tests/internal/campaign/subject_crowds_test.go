package campaign

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// ofTwo is the name of a latch that has two parties in the plans that tell draws.
const ofTwo = "e"

// step adds a step at a latch or a barrier.
func (r *Record) step(s worker.Step) *Record {
	s.ID, s.Process, s.Name = uint64(len(r.records.steps)+1), 1, ofTwo
	if s.Do == worker.Join {
		s.TTL = int64(time.Second)
	}
	r.records.steps = append(r.records.steps, s)
	return r
}

// asks adds a step that was answered.
func (r *Record) asks(do worker.Doing, told worker.Outcome, begun, ended int64) *Record {
	return r.step(worker.Step{Do: do, Begun: begun, Ended: ended, Answer: worker.Answer{Outcome: told}})
}

// looks adds a look at the number that is left.
func (r *Record) looks(left int, begun, ended int64) *Record {
	return r.step(worker.Step{Do: worker.Look, Begun: begun, Ended: ended, Answer: worker.Answer{Outcome: worker.Achieved, Left: left}})
}

// misses adds a wait that was told that some parties are missing.
func (r *Record) misses(missing int, begun, ended int64) *Record {
	return r.step(worker.Step{Do: worker.Wait, Begun: begun, Ended: ended, Answer: worker.Answer{Outcome: worker.Incomplete, Missing: missing}})
}

// joins adds a party whose lease ends at deadline.
func (r *Record) joins(begun, ended, deadline int64) *Record {
	return r.step(worker.Step{Do: worker.Join, Deadline: deadline, Begun: begun, Ended: ended, Answer: worker.Answer{Outcome: worker.Achieved}})
}

// ends makes the party that joined as the nth step count down, or leave.
func (r *Record) ends(nth uint64, counting bool, told worker.Outcome, begun, ended, deadline int64) *Record {
	return r.step(worker.Step{Do: worker.Leave, Party: nth, Counting: counting, Deadline: deadline, Begun: begun, Ended: ended, Answer: worker.Answer{Outcome: told}})
}

func TestJudgeOfLatches(t *testing.T) {
	expect.Equal(t, "parties of the latch", partiesOf(tell().Plan, ofTwo), 2)
	const (
		count, reset, wait, join = worker.Count, worker.Reset, worker.Wait, worker.Join

		achieved, unsure, undone, full, anew, lost = worker.Achieved, worker.Unsure, worker.Undone, worker.Full, worker.Anew, worker.Lost

		counting, leaving = true, false
	)
	counted := func(kinds ...string) *Record {
		return tell(kinds...).asks(count, achieved, 10, 20).asks(count, achieved, 30, 40)
	}
	for name, c := range map[string]struct {
		record *Record
		guilty bool
	}{
		"all count down":                       {counted().asks(wait, achieved, 5, 50), false},
		"the last does while another waits":    {counted().asks(wait, achieved, 5, 35), false},
		"at 0 it stays 0":                      {counted().asks(count, achieved, 50, 60).looks(0, 70, 80), false},
		"some are seen":                        {counted().looks(2, 5, 8).looks(1, 22, 28).looks(0, 50, 60), false},
		"one that was not answered counts":     {tell("lost-reply").asks(count, achieved, 10, 20).asks(count, unsure, 30, 40).asks(wait, achieved, 5, 60), false},
		"one that was not answered does not":   {tell("lost-reply").asks(count, achieved, 10, 20).asks(count, unsure, 30, 40).looks(1, 50, 60), false},
		"one that was not answered is late":    {tell("lost-reply").asks(count, achieved, 10, 20).asks(count, unsure, 30, 40).looks(1, 50, 60).looks(0, 70, 80), false},
		"one that failed does not":             {counted().asks(reset, achieved, 50, 60).asks(count, undone, 70, 80).looks(2, 90, 99), false},
		"begun anew":                           {counted().asks(reset, achieved, 50, 60).looks(2, 70, 80), false},
		"begun anew while another waits":       {tell().asks(count, achieved, 10, 20).asks(wait, anew, 25, 50).asks(reset, achieved, 30, 40), false},
		"begun anew, which was not answered":   {tell("lost-reply").asks(wait, anew, 25, 50).asks(reset, unsure, 10, 20), false},
		"parties count down":                   {tell().joins(10, 20, 500).ends(1, counting, achieved, 30, 40, 500).asks(count, achieved, 50, 60).asks(wait, achieved, 5, 70), false},
		"one leaves":                           {tell().joins(10, 20, 500).ends(1, leaving, achieved, 30, 40, 500).asks(count, achieved, 50, 60).misses(1, 5, 70), false},
		"one dies":                             {tell("process-killed").joins(10, 20, 500).asks(count, achieved, 50, 60).misses(1, 5, 600), false},
		"one dies as it counts down":           {tell("process-killed").joins(10, 20, 500).ends(1, counting, unsure, 30, 0, 500).asks(count, achieved, 50, 60).asks(wait, achieved, 5, 70), false},
		"one loses its lease":                  {tell("process-pause").joins(10, 20, 500).ends(1, counting, lost, 600, 610, 500).asks(count, achieved, 50, 60).misses(1, 5, 550), false},
		"one had joined before a reset":        {tell().joins(10, 20, 500).asks(reset, achieved, 30, 40).ends(1, counting, lost, 50, 60, 500).looks(2, 70, 80), false},
		"all places are taken":                 {tell().joins(10, 20, 500).joins(10, 20, 500).asks(join, full, 30, 40).asks(count, full, 30, 40), false},
		"a join that was not answered is none": {tell("lost-reply").asks(join, unsure, 10, 20).looks(2, 30, 40), false},
		"a join that was not answered dies":    {tell("lost-reply").asks(join, unsure, 10, 20).looks(2, 30, 40).looks(1, 2e9, 3e9), false},
		"data is lost":                         {counted("flushall").looks(2, 50, 60), false},
		"what was counted is forgotten":        {counted("queue-deleted").asks(reset, achieved, 50, 60).asks(count, achieved, 70, 80).looks(0, 90, 99), false},

		"open before all have counted down":         {tell().asks(count, achieved, 10, 20).asks(wait, achieved, 5, 50), true},
		"open before the last begins":               {counted().asks(wait, achieved, 5, 25), true},
		"not open when all have":                    {counted().looks(1, 50, 60), true},
		"one counts twice":                          {tell("lost-reply").asks(count, achieved, 10, 20).looks(0, 30, 40), true},
		"one that was not answered twice":           {tell("lost-reply").asks(count, unsure, 10, 20).looks(0, 30, 40), true},
		"one that failed counts":                    {tell().asks(count, achieved, 10, 20).asks(count, undone, 30, 40).asks(wait, achieved, 5, 50), true},
		"one does not count":                        {tell().asks(count, achieved, 10, 20).looks(2, 30, 40), true},
		"it is not begun anew":                      {counted().asks(reset, achieved, 50, 60).asks(wait, achieved, 70, 80), true},
		"it is begun anew twice":                    {tell("lost-reply").asks(reset, achieved, 10, 20).asks(count, achieved, 30, 40).looks(1, 50, 60).looks(2, 70, 80), true},
		"told of a reset that was none":             {counted().asks(wait, anew, 5, 50), true},
		"told of a reset before":                    {tell().asks(reset, achieved, 10, 20).asks(wait, anew, 30, 40), true},
		"a missing party is not told of":            {tell().joins(10, 20, 500).ends(1, leaving, achieved, 30, 40, 500).asks(count, achieved, 50, 60).asks(wait, achieved, 5, 70), true},
		"told of one that is not missing":           {counted().misses(1, 5, 50), true},
		"one is dead too early":                     {tell("process-pause").joins(10, 20, 500).ends(1, counting, lost, 600, 610, 500).asks(count, achieved, 50, 60).misses(1, 5, 450), true},
		"one counts down though it was missed":      {tell().joins(10, 20, 500).asks(count, achieved, 50, 60).misses(1, 5, 600).ends(1, counting, achieved, 700, 710, 800), true},
		"one counts down after a reset":             {tell().joins(10, 20, 500).asks(reset, achieved, 30, 40).ends(1, counting, achieved, 50, 60, 500), true},
		"one joins where no place is left":          {counted().joins(50, 60, 500), true},
		"one counts in the place of another":        {tell().joins(10, 20, 500).joins(10, 20, 500).asks(count, achieved, 50, 60), true},
		"a place is not given":                      {tell().joins(10, 20, 500).asks(join, full, 30, 40), true},
		"a join that was not answered dies at once": {tell("lost-reply").asks(join, unsure, 10, 20).looks(1, 30, 40), true},
	} {
		convicted(t, name, c.record, Latch{}, Counted, c.guilty)
	}
}

// convicted requires that a judge finds that rule broken, and no other.
func convicted(t *testing.T, name string, r *Record, s Subject, rule Rule, guilty bool) {
	t.Helper()
	v := Judge(r, s)
	other := slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Rule != rule })
	if len(v.Findings) > 0 != guilty || other || v.Unknown != 0 {
		t.Errorf("%s: found %+v, %d unknown; guilty: %v", name, v.Findings, v.Unknown, guilty)
	}
}

// However much may still happen, a history does not become too hard to judge.
func TestLatchesAreDecided(t *testing.T) {
	r := tell("lost-reply")
	for i := range int64(300) {
		at := 100 * i
		r.asks(worker.Count, worker.Unsure, at, at+10).asks(worker.Reset, worker.Unsure, at+10, at+20).asks(worker.Join, worker.Unsure, at+20, at+30).
			looks(int(1+i%2), at+40, at+90)
	}
	convicted(t, "all is late", r, Latch{}, Counted, false)
}

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
