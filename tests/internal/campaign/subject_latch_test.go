package campaign

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
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
	if n := partiesOf(tell().Plan, ofTwo); n != 2 {
		t.Fatalf("the latch has %d parties", n)
	}
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
