package history

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// grant is an event of process and goroutine p that asked when it was granted.
func grant(p int, fence uint64, granted, released, deadline int64) Event {
	return Event{
		Process: p, Goroutine: p, Name: "lock", Fence: fence,
		Asked: granted, Granted: granted, Released: released, Deadline: deadline,
	}
}

func named(e Event, name string) Event {
	e.Name = name
	return e
}

func TestCheck(t *testing.T) {
	gaveUp := Event{Process: 3, Name: "lock", Asked: 10, GaveUp: 25}
	for name, c := range map[string]struct {
		events []Event
		want   []Rule
	}{
		"none":            {nil, nil},
		"one after other": {[]Event{grant(1, 1, 10, 20, 50), grant(2, 2, 20, 30, 60), gaveUp}, nil},
		"by the deadline": {[]Event{grant(1, 1, 10, 0, 20), grant(2, 2, 20, 30, 40)}, nil},
		"woke up after its deadline and released late": {
			[]Event{grant(1, 1, 10, 90, 20), grant(2, 2, 21, 30, 40)}, nil},
		"heard of after its deadline": {
			[]Event{grant(2, 2, 25, 40, 50), grant(1, 1, 30, 35, 20)}, nil},
		"at once, but two locks": {
			[]Event{grant(1, 1, 10, 20, 50), named(grant(2, 1, 10, 20, 50), "other")}, nil},
		"in any order of records": {
			[]Event{grant(2, 2, 20, 30, 60), grant(1, 1, 10, 20, 50)}, nil},

		"overlap by one nanosecond": {
			[]Event{grant(1, 1, 10, 21, 50), grant(2, 2, 20, 30, 60)}, []Rule{Exclusion}},
		"overlap with a deadline": {
			[]Event{grant(1, 1, 10, 0, 30), grant(2, 2, 20, 30, 60)}, []Rule{Exclusion}},
		"overlap with one before the last": {
			[]Event{grant(1, 1, 10, 100, 200), grant(2, 2, 20, 30, 60), grant(3, 3, 40, 50, 60)},
			[]Rule{Exclusion, Exclusion}},
		"same moment": {
			[]Event{grant(1, 1, 10, 20, 50), grant(2, 2, 10, 20, 50)}, []Rule{Exclusion}},
		"in one process": {
			[]Event{grant(1, 1, 10, 30, 50), grant(1, 2, 20, 40, 60)}, []Rule{Exclusion}},

		"fence given twice": {
			[]Event{grant(1, 1, 10, 20, 50), grant(2, 1, 30, 40, 50)}, []Rule{Fencing}},
		"fence goes back": {
			[]Event{grant(1, 7, 10, 20, 50), grant(2, 6, 30, 40, 50), grant(3, 8, 50, 60, 70)}, []Rule{Fencing}},
		"fence starts again": {
			[]Event{grant(1, 7, 10, 20, 50), grant(2, 1, 30, 40, 50), grant(3, 2, 50, 60, 70)},
			[]Rule{Fencing, Fencing}},
		"no fence": {[]Event{grant(1, 0, 10, 20, 50)}, []Rule{Fencing}},
		"fence of one heard of too late": {
			[]Event{grant(1, 1, 30, 35, 20), grant(2, 1, 40, 50, 60)}, []Rule{Fencing}},

		"released before it was granted": {[]Event{grant(1, 1, 10, 9, 50)}, []Rule{Sense}},
		"without a deadline":             {[]Event{grant(1, 1, 10, 20, 0)}, []Rule{Sense}},
		"granted and given up":           {[]Event{{Name: "lock", Fence: 1, Asked: 1, Granted: 2, GaveUp: 3, Deadline: 4}}, []Rule{Sense}},
		"granted before it asked":        {[]Event{{Name: "lock", Fence: 1, Asked: 3, Granted: 2, Deadline: 4}}, []Rule{Sense}},
	} {
		if got := rules(Check(c.events)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %v; want %v", name, got, c.want)
		}
	}
}

func TestViolationsSayWhoAndWhen(t *testing.T) {
	for _, c := range []struct {
		events []Event
		want   string
	}{
		{[]Event{grant(1, 4, 10, 5020, 9000), grant(2, 5, 20, 30, 60)},
			`lock "lock": process 2 goroutine 2 with fence 5 got it 5µs before process 1 goroutine 1 with fence 4 had let go of it`},
		{[]Event{grant(1, 4, 10, 20, 9000), grant(2, 4, 2010, 3000, 9000)},
			`lock "lock": process 1 goroutine 1 got fence 4, and 2µs later process 2 goroutine 2 got fence 4`},
		{[]Event{grant(1, 4, 10, 9, 50)},
			`lock "lock": process 1 goroutine 1: impossible record {`},
	} {
		violations := Check(c.events)
		if len(violations) != 1 || !strings.HasPrefix(violations[0].String(), c.want) {
			t.Errorf("got %v; want %s", violations, c.want)
		}
	}
}

// The sweep finds exactly the events that a comparison of every pair finds.
func TestSweepAgreesWithAllPairs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	clean := 0
	for range 3000 {
		var events []Event
		for i := range 1 + random.IntN(6) {
			granted := 1 + random.Int64N(40)
			events = append(events, grant(i, uint64(granted)<<8+uint64(i), granted,
				granted+random.Int64N(8), granted+random.Int64N(8)-2))
		}
		want := make(map[uint64]bool)
		for _, a := range events {
			for _, b := range events {
				later := a.Granted < b.Granted || a.Granted == b.Granted && a.Process < b.Process
				if later && a.held() && b.held() && b.Granted < a.end() {
					want[b.Fence] = true
				}
			}
		}
		got := make(map[uint64]bool)
		for _, v := range Check(events) {
			if v.Rule != Exclusion {
				continue
			}
			got[v.Second.Fence] = true
			if v.Second.Granted >= v.First.end() {
				t.Fatalf("no overlap: %v", v)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("of %+v overlap %v; reported are %v", events, want, got)
		}
		if len(want) == 0 {
			clean++
		}
	}
	if clean < 100 || clean > 2900 {
		t.Errorf("%d of 3000 histories have no overlap: the comparison proves little", clean)
	}
}

// sharing is an event of process p with such a share.
func sharing(p, share int, fence uint64, granted, released int64) Event {
	e := grant(p, fence, granted, released, 1000)
	e.Share = share
	return e
}

func rules(violations []Violation) []Rule {
	var got []Rule
	for _, v := range violations {
		got = append(got, v.Rule)
	}
	return got
}

func TestStrangers(t *testing.T) {
	for name, c := range map[string]struct {
		events []Event
		want   []Rule
	}{
		"one after other":       {[]Event{sharing(1, 1, 5, 10, 20), sharing(2, 2, 6, 20, 30)}, nil},
		"one's own":             {[]Event{sharing(1, 1, 5, 10, 30), sharing(2, 1, 5, 15, 40), sharing(1, 1, 5, 39, 50)}, nil},
		"another's":             {[]Event{sharing(1, 1, 5, 10, 30), sharing(2, 2, 6, 29, 40)}, []Rule{Exclusion}},
		"within the longer one": {[]Event{sharing(1, 1, 5, 10, 50), sharing(1, 1, 5, 15, 20), sharing(2, 2, 6, 40, 45)}, []Rule{Exclusion}},
		"of another lock":       {[]Event{sharing(1, 1, 5, 10, 30), named(sharing(2, 2, 6, 15, 20), "other")}, nil},
	} {
		if got := rules(Strangers(c.events)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestSharedFences(t *testing.T) {
	readers := func(a, b Event) bool { return a.Share != 0 && b.Share != 0 }
	for name, c := range map[string]struct {
		events []Event
		rise   bool
		want   []Rule
	}{
		"readers":                  {[]Event{sharing(1, 1, 5, 10, 30), sharing(2, 1, 5, 15, 40), sharing(3, 0, 6, 50, 60)}, true, nil},
		"a writer with theirs":     {[]Event{sharing(1, 1, 5, 10, 30), sharing(3, 0, 5, 50, 60)}, true, []Rule{Fencing}},
		"a reader with a writer's": {[]Event{sharing(1, 0, 5, 10, 30), sharing(3, 1, 5, 50, 60)}, true, []Rule{Fencing}},
		"one that goes back":       {[]Event{sharing(1, 1, 5, 10, 30), sharing(3, 1, 4, 50, 60)}, true, []Rule{Fencing}},
		"one that may go back":     {[]Event{sharing(1, 1, 5, 10, 30), sharing(3, 1, 4, 50, 60)}, false, nil},
		"heard of too late":        {[]Event{sharing(1, 1, 5, 10, 30), {Name: "lock", Share: 1, Fence: 4, Asked: 5, Granted: 40, Deadline: 35}}, true, nil},
		"an impossible record":     {[]Event{{Name: "lock", Share: 1, Fence: 4, Asked: 50, Granted: 40, Deadline: 60}}, true, []Rule{Sense}},
	} {
		if got := rules(SharedFences(c.events, c.rise, readers)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
