package campaign

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// tell makes a record of a history with these faults.
func tell(kindNames ...string) *Record {
	found, err := Kinds(&Config{}, kindNames...)
	if err != nil {
		panic(err)
	}
	if len(kindNames) == 0 {
		found = nil
	}
	return &Record{Plan: NewPlan(1, "some", Default, Mutex{}, found), Ordered: true, records: &records{}}
}

// holds adds a hold by process p.
func (r *Record) holds(p int, fence uint64, asked, granted, released int64) *Record {
	r.Events = append(r.Events, history.Event{
		ID: uint64(len(r.Events)), Process: p, Name: "a", Fence: fence,
		Asked: asked, Granted: granted, Released: released, Deadline: released + 10,
	})
	return r
}

// since sets when the server was asked for the latest hold.
func (r *Record) since(asked int64) *Record {
	r.Events[len(r.Events)-1].Since = asked
	return r
}

// accesses adds an access by process p.
func (r *Record) access(p int, fence uint64, write bool, value uint64, ok bool, at int64) *Record {
	r.records.accesses = append(r.records.accesses, worker.Access{
		ID: uint64(len(r.records.accesses)), Process: p, Name: "a", Fence: fence,
		Write: write, Value: value, OK: ok, Call: at, Return: at + 1,
	})
	return r
}

const (
	read  = false
	write = true
)

// A judge acquits the innocent and convicts the guilty.
func TestJudge(t *testing.T) {
	fair := func(kinds ...string) *Record {
		return tell(kinds...).holds(1, 10, 100, 200, 300).holds(2, 20, 150, 310, 400).
			access(1, 10, read, 0, true, 210).access(1, 10, write, 7, true, 220).
			access(2, 20, read, 7, true, 320).access(2, 20, write, 8, true, 330)
	}
	for name, c := range map[string]struct {
		record *Record
		want   []Rule
	}{
		"nothing happened": {tell(), nil},
		"one after other":  {fair(), nil},
		"a late write that is refused": {
			fair().access(1, 10, write, 9, false, 340), nil},
		"a late write before anybody else was there": {
			tell().holds(1, 10, 100, 200, 300).holds(2, 20, 150, 310, 400).access(1, 10, write, 9, true, 315).
				access(2, 20, read, 9, true, 320), nil},
		"overlaps outside the model": {
			tell("flushall").holds(1, 10, 100, 200, 300).holds(2, 20, 150, 290, 400), nil},
		"an early hold that is heard of late, outside the model": {
			tell("flushall").holds(1, 20, 150, 200, 300).holds(2, 10, 100, 290, 400), nil},
		"a lease that its process passed on when another had the lock, outside the model": {
			tell("flushall").holds(1, 10, 100, 200, 300).holds(2, 20, 210, 220, 400).holds(1, 11, 230, 310, 350).since(120), nil},
		"strangers have no fences": {
			tell("stranger").holds(0, 0, 100, 200, 300).holds(1, 10, 100, 310, 320).holds(0, 0, 100, 330, 340), nil},
		"an access whose answer was not seen": {
			unheard(fair(), worker.Access{ID: 99, Process: 1, Name: "a", Fence: 10, Write: true, Value: 9, Call: 225}), nil},

		"two hold at once": {
			tell().holds(1, 10, 100, 200, 300).holds(2, 20, 150, 290, 400), []Rule{Overlap, Sequential}},
		"two hold at once while the server restarts": {
			tell("server-restart").holds(1, 10, 100, 200, 300).holds(2, 20, 150, 290, 400), []Rule{Overlap, Sequential}},
		"a stranger holds as well": {
			tell("stranger").holds(0, 0, 100, 200, 300).holds(1, 10, 100, 290, 320), []Rule{Overlap, Sequential}},
		"a fence goes back": {
			tell().holds(1, 20, 100, 200, 300).holds(2, 10, 150, 310, 400), []Rule{Fences, Sequential}},
		"a fence goes back outside the model": {
			tell("flushall").holds(1, 20, 100, 200, 300).holds(2, 10, 250, 310, 400), []Rule{Fences}},
		"a fence goes back outside the model in a lease that the server was asked for since": {
			tell("flushall").holds(1, 10, 100, 200, 300).holds(2, 20, 210, 220, 400).holds(1, 11, 230, 310, 350).since(225), []Rule{Fences}},
		"a lease that its process passed on, with a fence that another had": {
			tell("flushall").holds(1, 10, 100, 200, 300).holds(2, 11, 210, 220, 400).holds(1, 11, 230, 310, 350).since(120), []Rule{Fences}},
		"a fence is given twice outside the model": {
			tell("flushall").holds(1, 20, 100, 200, 300).holds(2, 20, 150, 310, 400), []Rule{Fences}},
		"an update is lost between two holders with one fence": {
			tell("flushall").holds(1, 10, 100, 200, 300).holds(2, 10, 150, 205, 320).
				access(1, 10, read, 0, true, 210).access(2, 10, read, 0, true, 212).
				access(1, 10, write, 8, true, 220).access(2, 10, write, 9, true, 230), []Rule{Fences, Resource}},
		"a read of what was never written": {
			fair().access(2, 20, read, 99, true, 340), []Rule{Resource}},
		"a stale write that is accepted": {
			fair().access(1, 10, write, 9, true, 340), []Rule{StaleWrite}},
		"a stale write that is accepted, by a lock whose fences do not rise": {
			tell("flushall").holds(1, 10, 100, 200, 300).holds(2, 10, 250, 310, 400).
				access(2, 10, write, 7, true, 320).access(1, 10, write, 8, true, 340), []Rule{Fences, StaleWrite}},
		"granted before it was asked for": {tell().holds(1, 10, 300, 200, 400), []Rule{Sequential, Sequential}},
	} {
		judges(t, name, c.record, Mutex{}, c.want...)
	}
}

// judges requires that a record breaks just these rules.
func judges(t *testing.T, name string, r *Record, s Subject, want ...Rule) {
	t.Helper()
	v := Judge(r, s)
	var got []Rule
	for _, f := range v.Findings {
		got = append(got, f.Rule)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || v.Unknown != 0 {
		t.Errorf("%s: found %+v, %d unknown; want %v", name, v.Findings, v.Unknown, want)
	}
}

func unheard(r *Record, x worker.Access) *Record {
	x.OK = true
	r.records.accesses = append(r.records.accesses[:2:2], append([]worker.Access{x}, r.records.accesses[2:]...)...)
	// The next holder reads what it wrote.
	r.records.accesses[3].Value = x.Value
	return r
}

func TestJudgeTakesOverWhatWasSeenLive(t *testing.T) {
	r := tell()
	r.Passed = []string{"somebody"}
	r.Stuck = []string{"a process"}
	r.Left = []string{"a key"}
	r.races = []string{"a report"}
	r.ended = []worker.Ended{{Before: 3, After: 3}, {Before: 3, After: 4}, {Close: "context deadline exceeded"}}
	judges(t, "all was seen", r, Mutex{}, Order, Race, Wakeup, Leak, Leak, Leak)
	r.Ordered = false
	judges(t, "not all was seen", r, Mutex{}, Race, Wakeup, Leak, Leak, Leak)
}

func TestJudgeCounts(t *testing.T) {
	r := tell("flushall").holds(1, 10, 100, 200, 300).holds(2, 20, 150, 290, 400).holds(3, 30, 150, 410, 420).
		access(2, 20, read, 0, true, 320).access(1, 10, write, 9, false, 340).access(3, 30, write, 9, true, 415)
	r.Events = append(r.Events, history.Event{Process: 4, Name: "a", Asked: 100, GaveUp: 200})
	r.extensions = 2
	got := Judge(r, Mutex{})
	want := Verdict{Operations: 9, Grants: 3, Overlaps: 1, StaleWrites: 1, StaleRefused: 1}
	expect.Equal(t, "judged", fmt.Sprint(got), fmt.Sprint(want))
}

// shares sets the latest hold's Share.
func (r *Record) shares(n int) *Record {
	r.Events[len(r.Events)-1].Share = n
	return r
}

func TestJudgeOfShares(t *testing.T) {
	readers := func(second uint64) *Record {
		return tell().holds(1, 10, 100, 200, 300).shares(1).holds(2, second, 150, 210, 400).shares(1)
	}
	for name, c := range map[string]struct {
		subject Subject
		record  *Record
		want    []Rule
	}{
		"two readers":             {ReadWrite{}, readers(10), nil},
		"a writer after readers":  {ReadWrite{}, readers(10).holds(3, 20, 220, 410, 500), nil},
		"readers after a writer":  {ReadWrite{}, tell().holds(3, 5, 50, 60, 90).holds(1, 10, 100, 200, 300).shares(1).holds(2, 10, 150, 210, 400).shares(1), nil},
		"three permits of three":  {Permits{}, tell().holds(1, 10, 100, 200, 300).shares(2).holds(2, 11, 150, 210, 400).shares(1), nil},
		"permits one after other": {Permits{}, tell().holds(1, 10, 100, 200, 300).shares(2).holds(2, 11, 150, 310, 400).shares(2), nil},
		"a late permit":           {Permits{}, tell().holds(1, 11, 100, 200, 300).shares(1).holds(2, 10, 250, 310, 400).shares(1), nil},

		"a reader joins one that a server has brought back": {ReadWrite{}, tell("older-restart").holds(1, 10, 100, 200, 300).shares(1).
			holds(2, 20, 310, 320, 400).shares(1).holds(3, 10, 410, 420, 500).shares(1), nil},
		"a late write before a reader joins one that a server has brought back": {ReadWrite{}, tell("older-restart").holds(1, 10, 100, 200, 300).shares(1).
			holds(2, 20, 310, 320, 400).holds(3, 10, 330, 340, 500).shares(1).access(3, 10, read, 0, true, 350).access(2, 20, write, 7, true, 360), nil},

		"a write after a reader that has joined again what was deleted": {ReadWrite{}, tell("lock-deleted").holds(1, 10, 100, 200, 300).shares(1).access(1, 10, read, 0, true, 210).
			holds(2, 20, 310, 320, 400).access(2, 20, read, 0, true, 325).holds(1, 10, 330, 340, 500).shares(1).since(100).access(1, 10, read, 0, false, 345).access(2, 20, write, 7, true, 360), nil},
		"a write after an access of a reader that has joined what was deleted": {ReadWrite{}, tell("lock-deleted").holds(1, 10, 100, 200, 400).shares(1).
			holds(2, 20, 210, 220, 400).holds(1, 10, 230, 240, 400).shares(1).since(100).access(1, 10, read, 0, true, 250).access(2, 20, write, 7, true, 260), nil},

		"an owner's holds": {Owned{}, tell().holds(1, 10, 100, 200, 300).shares(1).holds(2, 10, 150, 210, 400).shares(1).holds(3, 11, 250, 410, 500).shares(2), nil},
		"an owner's turns": {Owned{}, tell().holds(1, 10, 100, 200, 300).shares(1).holds(2, 11, 250, 310, 400).shares(1), nil},

		"a reader joins one that is gone": {ReadWrite{}, tell("flushall").holds(1, 10, 100, 200, 300).shares(1).
			holds(2, 20, 310, 320, 400).shares(1).holds(3, 10, 410, 420, 500).shares(1), []Rule{Fences}},
		"a stale write after a reader that joins what is gone": {ReadWrite{}, tell("lock-deleted").holds(1, 10, 100, 200, 300).shares(1).access(1, 10, read, 0, true, 210).
			holds(2, 20, 310, 320, 400).holds(1, 10, 330, 340, 500).shares(1).access(1, 10, read, 0, true, 345).access(2, 20, write, 7, true, 360), []Rule{Fences, StaleWrite}},
		"a reader's fence goes back after a restart": {ReadWrite{}, tell("older-restart").holds(1, 10, 100, 200, 300).shares(1).
			holds(2, 20, 310, 320, 400).shares(1).holds(3, 15, 410, 420, 500).shares(1), []Rule{Fences}},
		"a late write before a reader comes anew after a restart": {ReadWrite{}, tell("older-restart").holds(1, 10, 100, 200, 300).shares(1).
			holds(2, 20, 310, 320, 400).holds(3, 15, 330, 340, 500).shares(1).access(3, 15, read, 0, true, 350).access(2, 20, write, 7, true, 360), []Rule{Fences, StaleWrite}},
		"a writer's fence goes back after a restart": {ReadWrite{}, tell("older-restart").holds(1, 10, 100, 200, 300).shares(1).
			holds(2, 20, 310, 320, 400).holds(3, 15, 410, 420, 500), []Rule{Fences}},

		"two owners":                           {Owned{}, tell().holds(1, 10, 100, 200, 300).shares(1).holds(2, 11, 150, 210, 400).shares(2), []Rule{Overlap, Sequential}},
		"two owners with one fence":            {Owned{}, tell().holds(1, 10, 100, 200, 300).shares(1).holds(2, 10, 250, 310, 400).shares(2), []Rule{Fences, Sequential}},
		"an owner's fence goes back":           {Owned{}, tell().holds(1, 11, 100, 200, 300).shares(1).holds(2, 10, 320, 330, 400).shares(2), []Rule{Fences, Sequential}},
		"a writer beside a reader":             {ReadWrite{}, readers(10).holds(3, 20, 220, 390, 500), []Rule{Overlap, Sequential}},
		"a reader beside a writer":             {ReadWrite{}, tell().holds(1, 10, 100, 200, 300).holds(2, 20, 150, 290, 400).shares(1), []Rule{Overlap, Sequential}},
		"two writers":                          {ReadWrite{}, tell().holds(1, 10, 100, 200, 300).holds(2, 20, 150, 290, 400), []Rule{Overlap, Sequential}},
		"a writer's fence goes back":           {ReadWrite{}, tell().holds(1, 20, 100, 200, 300).holds(2, 10, 150, 310, 400), []Rule{Fences, Sequential}},
		"a reader has the writer's fence":      {ReadWrite{}, tell().holds(1, 10, 100, 200, 300).holds(2, 10, 150, 310, 400).shares(1), []Rule{Fences, Sequential}},
		"a reader's fence is below a writer's": {ReadWrite{}, tell().holds(1, 20, 100, 200, 300).holds(2, 10, 320, 330, 400).shares(1), []Rule{Fences, Sequential}},
		"four permits of three":                {Permits{}, tell().holds(1, 10, 100, 200, 300).shares(2).holds(2, 11, 150, 210, 400).shares(2), []Rule{Overlap, Sequential}},
		"one fence for two permits":            {Permits{}, tell().holds(1, 10, 100, 200, 300).shares(1).holds(2, 10, 150, 210, 400).shares(1), []Rule{Fences}},
	} {
		judges(t, name, c.record, c.subject, c.want...)
	}
}

// call adds what calls of Do reported.
func (r *Record) call(calls ...worker.Call) *Record {
	for _, c := range calls {
		c.ID, c.Name = uint64(len(r.records.calls)), "a"
		r.records.calls = append(r.records.calls, c)
	}
	return r
}

// ran is a call that ran the job, from held to finished, and was told at returned that its run counts.
func ran(slot string, fence uint64, held, finished, returned int64) worker.Call {
	c := worker.Call{Slot: slot, Window: 100 * time.Microsecond, Fence: fence, Held: held, Finished: finished, Result: fmt.Sprint(fence)}
	return told(c, fence, returned)
}

// told makes a call be told that a run counts, whose time is its fence.
func told(c worker.Call, fence uint64, returned int64) worker.Call {
	c.Returned = returned
	c.Done = &worker.Done{Fence: fence, Result: fmt.Sprint(fence), At: int64(fence), Here: c.Fence == fence}
	return c
}

// failed is a call whose run failed, or ended with its process.
func failed(slot string, fence uint64, held int64) worker.Call {
	return worker.Call{Slot: slot, Window: 100 * time.Microsecond, Fence: fence, Held: held, Result: fmt.Sprint(fence), Error: "it failed"}
}

// unsure is a call that ran the job, but does not know whether its run counts.
func unsure(slot string, fence uint64, held, finished int64) worker.Call {
	return worker.Call{Slot: slot, Fence: fence, Held: held, Finished: finished, Result: fmt.Sprint(fence)}
}

func TestJudgeOfJobs(t *testing.T) {
	waited := worker.Call{Slot: "s"}
	for name, c := range map[string]struct {
		record *Record
		want   int // findings
	}{
		"one runs it, another is told":          {tell().call(ran("s", 10, 1, 2, 3), told(waited, 10, 4)), 0},
		"it fails, and another completes it":    {tell().call(failed("s", 10, 1), ran("s", 11, 5, 6, 7)), 0},
		"in two windows":                        {tell().call(ran("s", 10, 1, 2, 3), ran("t", 11, 4, 5, 6)), 0},
		"nobody heard that it was completed":    {tell().call(unsure("s", 10, 1, 2), told(waited, 10, 4)), 0},
		"it may have been completed, and was":   {tell().call(unsure("s", 10, 1, 2), ran("s", 11, 5, 6, 7)), 0},
		"it begins before the other is told":    {tell().call(ran("s", 10, 1, 2, 30), failed("s", 11, 20)), 0},
		"a window lies between":                 {tell().call(ran("", 10, 1, 2, 3), ran("", 110, 5, 6, 7)), 0},
		"a loss of data":                        {tell("flushall").call(ran("s", 10, 1, 2, 3), ran("s", 11, 5, 6, 7)), 0},
		"it began when its lease was over":      {tell().call(ran("s", 10, 1, 2, 3), failed("s", 9, 0)), 0},
		"two complete it":                       {tell().call(ran("s", 10, 1, 2, 3), ran("s", 11, 2, 6, 7)), 1},
		"two complete it, as a third was told":  {tell().call(ran("s", 10, 1, 2, 3), unsure("s", 11, 2, 3), told(waited, 11, 8)), 1},
		"one that failed counts":                {tell().call(failed("s", 10, 1), told(waited, 10, 4)), 1},
		"one that nobody ran counts":            {tell().call(told(waited, 10, 4)), 1},
		"one of another window counts":          {tell().call(ran("t", 10, 1, 2, 3), told(waited, 10, 4)), 1},
		"it is run again":                       {tell().call(ran("s", 10, 1, 2, 3), failed("s", 11, 5)), 1},
		"it is run again, and that counts, too": {tell().call(ran("s", 10, 1, 2, 3), ran("s", 11, 5, 6, 7)), 2},
		"no window lies between":                {tell().call(ran("", 10, 1, 2, 3), ran("", 109, 5, 6, 7)), 1},
		"another's result": {tell().call(ran("s", 10, 1, 2, 3), worker.Call{Slot: "s", Returned: 9,
			Done: &worker.Done{Fence: 10, Result: "another"}}), 1},
		"two say so at different times": {tell().call(told(waited, 10, 9), ran("s", 10, 1, 2, 3), ran("s", 11, 5, 6, 4)), 2},
	} {
		judges(t, name, c.record, Once{}, slices.Repeat([]Rule{Counting}, c.want)...)
	}
}

// Two callers hold a and b, and each asks for the other's, until one of them is told.
func TestJudgeOfCircles(t *testing.T) {
	event := func(p, goroutine int, name string, asked, granted, gaveUp, released int64) history.Event {
		return history.Event{ID: uint64(asked), Process: p, Goroutine: goroutine, Name: name, Fence: uint64(granted), Asked: asked,
			Granted: granted, GaveUp: gaveUp, Released: released, Deadline: 900}
	}
	first := []history.Event{event(1, 1, "a", 100, 110, 0, 400), event(1, 1, "b", 120, 310, 0, 390)}
	second := []history.Event{event(2, 1, "b", 105, 115, 0, 305), event(2, 1, "a", 130, 0, 300, 0)}
	for name, c := range map[string]struct {
		events [][]history.Event
		want   []Rule
	}{
		"there was one":                       {[][]history.Event{first, second}, nil},
		"the other's process died":            {[][]history.Event{{event(1, 1, "a", 100, 110, 0, 0), event(1, 1, "b", 120, 0, 0, 0)}, second}, nil},
		"the other does not wait":             {[][]history.Event{first[:1], second}, []Rule{Circle}},
		"another goroutine waits":             {[][]history.Event{{first[0], event(1, 2, "b", 120, 310, 0, 390)}, second}, []Rule{Circle}},
		"the other had gone":                  {[][]history.Event{{event(1, 1, "a", 100, 110, 0, 130), event(1, 1, "b", 112, 0, 125, 0)}, second}, []Rule{Circle}},
		"the other does not hold":             {[][]history.Event{{event(1, 1, "a", 100, 0, 310, 0), first[1]}, second}, []Rule{Circle}},
		"one waits when the other has let go": {[][]history.Event{{event(1, 1, "a", 100, 110, 0, 140), first[1]}, {second[0], event(2, 1, "a", 145, 0, 300, 0)}}, []Rule{Circle}},
	} {
		record := tell("flushall")
		record.Events = slices.Concat(c.events...)
		record.deadlocks = []worker.Deadlock{{Call: 130, Return: 300, Circle: []worker.Knotted{{Process: 2, Name: "b"}, {Process: 1, Name: "a"}}}}
		judges(t, name, record, Nested{}, c.want...)
	}
}
