package history

import "testing"

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
