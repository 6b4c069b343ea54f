package history

import (
	"math"
	"testing"
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
			Report{Grants: 2, LongestWait: 90, MeanWait: 10, Jain: 0.25},
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
