package history

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestFairness(t *testing.T) {
	event := func(p, g int, asked, granted, gaveUp int64) Event {
		return Event{Process: p, Goroutine: g, Name: "lock", Asked: asked, Granted: granted, GaveUp: gaveUp, Deadline: granted + 1}
	}
	for name, c := range map[string]struct {
		events []Event
		want   Report
	}{
		"nothing": {nil, Report{}},
		"even": {
			[]Event{event(1, 1, 10, 20, 0), event(1, 2, 10, 40, 0), event(2, 1, 30, 50, 0)},
			Report{Grants: 3, LongestWait: 30, MeanWait: 20, Jain: 1},
		},
		"one gets all": {
			[]Event{event(1, 1, 10, 20, 0), event(1, 1, 20, 30, 0), event(1, 2, 10, 0, 100), event(2, 1, 10, 0, 20), event(2, 2, 10, 0, 20)},
			Report{Grants: 2, GaveUp: 3, LongestWait: 90, MeanWait: 10, Jain: 0.25},
		},
		"three to one": {
			[]Event{event(1, 1, 1, 2, 0), event(1, 1, 2, 3, 0), event(1, 1, 3, 4, 0), event(2, 2, 4, 5, 0)},
			Report{Grants: 4, LongestWait: 1, MeanWait: 1, Jain: 0.8},
		},
		"still waiting": {[]Event{event(1, 1, 10, 0, 0)}, Report{}},
	} {
		got := Fairness(c.events)
		if math.Abs(got.Jain-c.want.Jain) < 1e-9 {
			got.Jain = c.want.Jain
		}
		if got != c.want {
			t.Errorf("%s: got %+v; want %+v", name, got, c.want)
		}
	}
}

func TestOvertakes(t *testing.T) {
	type place struct {
		process int
		order   uint64
	}
	for name, c := range map[string]struct {
		granted []place // in this order
		want    int
	}{
		"first in, first out":       {[]place{{1, 1}, {2, 2}, {3, 3}, {1, 4}}, 0},
		"one overtaken":             {[]place{{1, 2}, {2, 1}}, 1},
		"one overtakes many":        {[]place{{1, 4}, {2, 1}, {3, 2}, {4, 3}}, 1},
		"many overtake one":         {[]place{{1, 2}, {2, 3}, {3, 4}, {4, 1}}, 3},
		"within a process":          {[]place{{1, 2}, {1, 1}, {2, 3}}, 0},
		"hidden behind its own":     {[]place{{1, 5}, {2, 3}, {1, 1}}, 2},
		"order unknown":             {[]place{{1, 2}, {2, 0}, {3, 3}}, 0},
		"unknown between two known": {[]place{{1, 2}, {2, 0}, {3, 1}}, 1},
	} {
		var events []Event
		for i, p := range c.granted {
			e := grant(p.process, uint64(i), int64(10*i+10), int64(10*i+15), int64(10*i+20))
			e.Order = p.order
			events = append(events, e)
		}
		if got := Fairness(events).Overtakes; got != c.want {
			t.Errorf("%s: got %d; want %d", name, got, c.want)
		}
	}
}

func TestOvertakesAgreeWithAllPairs(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		order := random.Perm(8)
		var events []Event
		for i, o := range order {
			e := grant(1+random.IntN(3), uint64(i), int64(i+1), 0, int64(i+2))
			e.Order = uint64(o) // 0, which means unknown, is one of them
			events = append(events, e)
		}
		want := 0
		for i, a := range events {
			for _, b := range events[i+1:] {
				if a.Order != 0 && b.Order != 0 && b.Order < a.Order && a.Process != b.Process {
					want++
					break
				}
			}
		}
		if got := Fairness(events).Overtakes; got != want {
			t.Fatalf("%+v: got %d overtakes; want %d", events, got, want)
		}
	}
}

func TestFairnessKeepsLocksApart(t *testing.T) {
	a := grant(1, 1, 10, 15, 20)
	a.Order = 2
	b := named(grant(2, 1, 30, 35, 40), "other")
	b.Order = 1
	if got := Fairness([]Event{a, b}); got.Overtakes != 0 || got.Grants != 2 || got.LongestWait != time.Duration(0) {
		t.Errorf("two locks: %+v", got)
	}
}
