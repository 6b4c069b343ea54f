package history

import "testing"

// share makes an event hold a part of the lock.
func share(e Event, n int) Event {
	e.Share = n
	return e
}

func TestTurns(t *testing.T) {
	for name, c := range map[string]struct {
		events []Event
		wrong  int
	}{
		"readers share a fence":         {[]Event{grant(1, 5, 10, 20, 90), share(grant(2, 7, 20, 40, 90), 1), share(grant(3, 7, 30, 40, 90), 1), grant(4, 8, 40, 50, 90)}, 0},
		"readers out of order":          {[]Event{share(grant(1, 8, 20, 40, 90), 1), share(grant(2, 7, 30, 40, 90), 1), grant(3, 9, 40, 50, 90)}, 0},
		"a reader below a writer":       {[]Event{grant(1, 5, 10, 20, 90), share(grant(2, 4, 20, 40, 90), 1)}, 1},
		"a reader beside a writer":      {[]Event{grant(1, 5, 10, 20, 90), share(grant(2, 5, 20, 40, 90), 1)}, 1},
		"a writer below readers":        {[]Event{share(grant(1, 8, 20, 40, 90), 1), share(grant(2, 7, 30, 40, 90), 1), grant(3, 8, 40, 50, 90)}, 1},
		"a writer below a writer":       {[]Event{grant(1, 5, 10, 20, 90), share(grant(2, 7, 20, 40, 90), 1), grant(3, 5, 40, 50, 90)}, 1},
		"none":                          {[]Event{share(grant(1, 0, 10, 20, 90), 1)}, 1},
		"of two locks":                  {[]Event{grant(1, 5, 10, 20, 90), named(grant(2, 4, 20, 30, 90), "other")}, 0},
		"heard of after its deadline":   {[]Event{grant(2, 2, 25, 40, 50), grant(1, 1, 30, 35, 20)}, 0},
		"given up, and so not granted":  {[]Event{grant(2, 2, 25, 40, 50), {Name: "lock", Asked: 30, GaveUp: 40}}, 0},
		"of one who died with the lock": {[]Event{grant(1, 5, 10, 0, 30), grant(2, 4, 30, 40, 90)}, 1},
	} {
		if got := Turns(c.events); len(got) != c.wrong {
			t.Errorf("%s: %v", name, got)
		}
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
