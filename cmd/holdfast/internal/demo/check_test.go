package demo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// No worker can take over while the machine stands still.
func TestStandstillsAreAllowedFor(t *testing.T) {
	h := Sound()
	DelayAfter(Gone)(h)
	h.Stood = 2 * time.Second
	for _, c := range h.Check() {
		if !c.OK {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
}

// Each check, and no other, fails if its invariant is broken.
func TestBrokenHistoryFails(t *testing.T) {
	const (
		draws     = "10 draws, 10 different winners"
		exclusion = "never two holders at once"
		fences    = "fences strictly increasing"
		updates   = "no update lost"
		killed    = "next holder in time after SIGKILL"
		paused    = "next holder in time after SIGSTOP"
		lease     = "woken holder told by its lease"
		write     = "late write refused by the fence"
	)
	for _, test := range []struct {
		name  string
		spoil func(*History)
		fails []string
		says  string
	}{
		{"a place drawn twice", Change(Drew, 4, func(e *Event) { e.Place = 4 }), []string{draws}, "place 4 was drawn 2 times"},
		{"somebody wins twice", func(h *History) {
			Change(Drew, 4, func(e *Event) { e.Winner = "winner 2" })(h)
			h.Winners[4] = "winner 2"
		}, []string{draws}, "9 different people won"},
		{"one draw too many", func(h *History) {
			h.Events = append(h.Events, Event{Worker: 1, Kind: Drew, Place: 11, Winner: "winner 11"})
		}, []string{draws}, "11 draws were made for 10 places"},
		{"a draw lost in Redis", func(h *History) { h.Winners = h.Winners[:9] }, []string{draws}, "the list has 9 winners"},
		{"another name in Redis", func(h *History) { h.Winners[3] = "stranger" }, []string{draws}, "whom nobody drew"},
		{"no draw at all", func(h *History) { Drop(Drew)(h); h.Winners = nil }, []string{draws}, "0 draws were made"},

		{"granted before the release", Change(Granted, 3, func(e *Event) { e.At -= 2 * time.Millisecond }),
			[]string{exclusion}, "worker 2 got the lock 1ms before worker 1 gave it up"},
		{"granted before the deadline of a paused holder", Change(Released, 13, func(e *Event) { e.Deadline += 30 * time.Millisecond }),
			[]string{exclusion}, "before worker 2 gave it up"},
		{"granted while a killed holder lived", Change(Gone, 0, func(e *Event) { e.At += 1600 * time.Millisecond }),
			[]string{exclusion}, "before worker 1 gave it up"},

		{"a fence twice", Change(Granted, 5, func(e *Event) { e.Fence-- }), []string{fences}, "got fence 105 after worker 3 had got 105"},
		{"a fence falls", Change(Granted, 12, func(e *Event) { e.Fence = 1 }), []string{fences}, "got fence 1 after"},
		{"no fence", Change(Granted, 0, func(e *Event) { e.Fence = 0 }), []string{fences}, "worked without a fence"},

		{"an update lost", func(h *History) { h.Total-- }, []string{updates}, "4 writes were accepted, but the ledger has 3"},
		{"an update of nobody", func(h *History) { h.Total++ }, []string{updates}, "the ledger has 5"},

		{"nobody killed", Drop(Killed), []string{killed}, "it did not happen"},
		{"taken over late after a kill", DelayAfter(Gone), []string{killed}, "it took 2.6s, but the TTL is 1.5s"},
		{"nobody takes over", func(h *History) {
			i := slices.IndexFunc(h.Events, func(e Event) bool { return e.Kind == Paused })
			h.Events = h.Events[:i+1]
			h.Total = 2
		}, []string{paused, lease, write}, "nobody got the lock afterwards"},
		{"nobody paused", Drop(Paused), []string{paused}, "it did not happen"},
		{"taken over late after a pause", DelayAfter(Paused), []string{paused}, "it took 2.59s, but the TTL is 1.5s"},

		{"a lease that does not know", Change(Woke, 0, func(e *Event) { e.Lost = false }), []string{lease}, "still holds the lock"},
		{"nobody woke up", Drop(Woke), []string{lease}, "nobody woke up"},
		{"a late write accepted", func(h *History) {
			for i := range h.Events {
				if h.Events[i].Late {
					h.Events[i].Refused = false
				}
			}
			h.Total++
		}, []string{write}, "it was accepted"},
		{"no late write", func(h *History) {
			h.Events = slices.DeleteFunc(h.Events, func(e Event) bool { return e.Late })
		}, []string{write}, "nobody wrote late"},

		{"nothing recorded", func(h *History) { h.Events, h.Winners, h.Total = nil, nil, 0 },
			[]string{draws, exclusion, fences, updates, killed, paused, lease, write}, "nobody ever held a lock"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := Sound()
			test.spoil(h)
			var failed []string
			var said strings.Builder
			for _, c := range h.Check() {
				if !c.OK {
					failed = append(failed, c.Name)
					fmt.Fprintln(&said, c.Detail)
				}
			}
			if !slices.Equal(failed, test.fails) {
				t.Errorf("failed: %q, not %q\n%s", failed, test.fails, &said)
			}
			if !strings.Contains(said.String(), test.says) {
				t.Errorf("it says %q, not %q", &said, test.says)
			}
		})
	}
}

// Sound returns a history that keeps every invariant: ten draws, then a ledger during which worker 1 is killed and
// worker 2 is paused.
func Sound() *History {
	h := &History{Pauses: true, Locked: true, Total: 4}
	clock, fence := 1000*time.Millisecond, uint64(100)
	add := func(worker int, k Kind, e Event) {
		e.At, e.Worker, e.Kind = clock, worker, k
		h.Add(e)
	}
	begin := func(worker int, lock string) {
		fence++
		add(worker, Granted, Event{Lock: lock, Fence: fence, Asked: clock - 50*time.Millisecond, Deadline: clock + 1485*time.Millisecond})
	}
	end := func(worker int, lock string) {
		add(worker, Released, Event{Lock: lock, Deadline: clock + 1400*time.Millisecond})
	}
	work := func(worker, value int) {
		begin(worker, Ledger)
		clock += 10 * time.Millisecond
		add(worker, Wrote, Event{Lock: Ledger, Fence: fence, Value: value})
		end(worker, Ledger)
		clock += time.Millisecond
	}

	for place := 1; place <= Places; place++ {
		worker, winner := 1+place%3, fmt.Sprint("winner ", place)
		begin(worker, Lottery)
		clock += 100 * time.Millisecond
		add(worker, Drew, Event{Lock: Lottery, Place: place, Winner: winner})
		end(worker, Lottery)
		h.Winners = append(h.Winners, winner)
		clock += time.Millisecond
	}

	begin(1, Ledger)
	clock += 10 * time.Millisecond
	add(1, Killed, Event{Lock: Ledger})
	clock += 5 * time.Millisecond
	add(1, Gone, Event{})
	clock += 1490 * time.Millisecond
	work(3, 1)
	work(2, 2)

	begin(2, Ledger)
	stale := fence
	clock += 10 * time.Millisecond
	add(2, Paused, Event{Lock: Ledger})
	clock += 1490 * time.Millisecond
	work(3, 3)
	add(2, Resumed, Event{Lock: Ledger})
	add(2, Woke, Event{Lock: Ledger, Fence: stale, Lost: true})
	add(2, Wrote, Event{Lock: Ledger, Fence: stale, Value: 3, Late: true, Refused: true, Highest: fence})
	add(2, Released, Event{Lock: Ledger, Deadline: clock - 26*time.Millisecond})
	clock += time.Millisecond
	work(3, 4)
	return h
}

// Change returns a function that changes the nth event of a kind.
func Change(k Kind, n int, how func(*Event)) func(*History) {
	return func(h *History) {
		for i := range h.Events {
			if e := &h.Events[i]; e.Kind == k {
				if n == 0 {
					how(e)
					return
				}
				n--
			}
		}
		panic("there is no such event")
	}
}

// Drop returns a function that removes all events of a kind.
func Drop(k Kind) func(*History) {
	return func(h *History) {
		h.Events = slices.DeleteFunc(h.Events, func(e Event) bool { return e.Kind == k })
	}
}

// DelayAfter returns a function that makes everything after the first event of a kind happen 1.1 s later.
func DelayAfter(k Kind) func(*History) {
	return func(h *History) {
		i := slices.IndexFunc(h.Events, func(e Event) bool { return e.Kind == k })
		for j := i + 1; j < len(h.Events); j++ {
			e := &h.Events[j]
			e.At += 1100 * time.Millisecond
			e.Asked += 1100 * time.Millisecond
			e.Deadline += 1100 * time.Millisecond
		}
	}
}
