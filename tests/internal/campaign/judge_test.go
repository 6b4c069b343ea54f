package campaign

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
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
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v; want %+v", got, want)
	}
}
