package history

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
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
		expect.Equal(t, name, fmt.Sprint(rules(Check(c.events))), fmt.Sprint(c.want))
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

// Locks that several may hold: shares of 2, owners, and those of one fence.
func TestChecksOfShares(t *testing.T) {
	crowding := func(e []Event) []Violation { return Crowding(e, 2) }
	readers := func(a, b Event) bool { return a.Share != 0 && b.Share != 0 }
	rising := func(e []Event) []Violation { return SharedFences(e, true, readers) }
	falling := func(e []Event) []Violation { return SharedFences(e, false, readers) }
	late := Event{Name: "lock", Share: 1, Fence: 4, Asked: 5, Granted: 40, Deadline: 35}
	for name, c := range map[string]struct {
		check  func([]Event) []Violation
		events []Event
		want   []Rule
	}{
		"two of two":            {crowding, []Event{sharing(1, 1, 5, 10, 30), sharing(2, 1, 6, 15, 40)}, nil},
		"three of two":          {crowding, []Event{sharing(1, 1, 5, 10, 30), sharing(2, 1, 6, 15, 40), sharing(3, 1, 7, 29, 40)}, []Rule{Exclusion}},
		"two, and one by one":   {crowding, []Event{sharing(1, 2, 5, 10, 30), sharing(2, 1, 6, 30, 40), sharing(3, 1, 7, 30, 40)}, nil},
		"all beside a part":     {crowding, []Event{sharing(1, 0, 5, 10, 30), sharing(2, 1, 6, 29, 40)}, []Rule{Exclusion}},
		"one after other":       {Strangers, []Event{sharing(1, 1, 5, 10, 20), sharing(2, 2, 6, 20, 30)}, nil},
		"one's own":             {Strangers, []Event{sharing(1, 1, 5, 10, 30), sharing(2, 1, 5, 15, 40), sharing(1, 1, 5, 39, 50)}, nil},
		"another's":             {Strangers, []Event{sharing(1, 1, 5, 10, 30), sharing(2, 2, 6, 29, 40)}, []Rule{Exclusion}},
		"within the longer one": {Strangers, []Event{sharing(1, 1, 5, 10, 50), sharing(1, 1, 5, 15, 20), sharing(2, 2, 6, 40, 45)}, []Rule{Exclusion}},
		"of another lock":       {Strangers, []Event{sharing(1, 1, 5, 10, 30), named(sharing(2, 2, 6, 15, 20), "other")}, nil},

		"readers":                  {rising, []Event{sharing(1, 1, 5, 10, 30), sharing(2, 1, 5, 15, 40), sharing(3, 0, 6, 50, 60)}, nil},
		"a writer with theirs":     {rising, []Event{sharing(1, 1, 5, 10, 30), sharing(3, 0, 5, 50, 60)}, []Rule{Fencing}},
		"a reader with a writer's": {rising, []Event{sharing(1, 0, 5, 10, 30), sharing(3, 1, 5, 50, 60)}, []Rule{Fencing}},
		"one that goes back":       {rising, []Event{sharing(1, 1, 5, 10, 30), sharing(3, 1, 4, 50, 60)}, []Rule{Fencing}},
		"one that may go back":     {falling, []Event{sharing(1, 1, 5, 10, 30), sharing(3, 1, 4, 50, 60)}, nil},
		"heard of too late":        {rising, []Event{sharing(1, 1, 5, 10, 30), late}, nil},
		"an impossible record":     {rising, []Event{{Name: "lock", Share: 1, Fence: 4, Asked: 50, Granted: 40, Deadline: 60}}, []Rule{Sense}},
		"twins":                    {Twins, []Event{sharing(1, 1, 5, 10, 30), sharing(2, 1, 5, 15, 40)}, []Rule{Fencing}},
	} {
		expect.Equal(t, name, fmt.Sprint(rules(c.check(c.events))), fmt.Sprint(c.want))
	}
}

func TestLater(t *testing.T) {
	asked := func(e Event, asked, since int64) Event {
		e.Asked, e.Since = asked, since
		return e
	}
	for name, c := range map[string]struct {
		events []Event
		wrong  int
	}{
		"one after other":              {[]Event{grant(1, 1, 10, 20, 90), grant(2, 2, 20, 30, 90)}, 0},
		"asked for at the same time":   {[]Event{asked(grant(1, 2, 10, 20, 90), 1, 0), asked(grant(2, 1, 20, 30, 90), 5, 0)}, 0},
		"asked for after it was heard": {[]Event{asked(grant(1, 2, 10, 20, 90), 1, 0), asked(grant(2, 1, 20, 30, 90), 11, 0)}, 1},
		"passed on":                    {[]Event{asked(grant(1, 2, 10, 20, 90), 1, 0), asked(grant(2, 1, 20, 30, 90), 11, 5)}, 0},
		"of two locks":                 {[]Event{grant(1, 5, 10, 20, 90), named(grant(2, 4, 20, 30, 90), "other")}, 0},
	} {
		if got := Later(c.events); len(got) != c.wrong {
			t.Errorf("%s: %v", name, got)
		}
	}
}
