package demo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = instant(time.Millisecond)

// sound returns a history that keeps to every invariant: ten draws, then a
// ledger on which worker 1 is killed and worker 2 paused.
func sound() *history {
	h := &history{pauses: true, locked: true, total: 4}
	clock, fence := 1000*ms, uint64(100)
	add := func(worker int, k kind, e event) {
		e.At, e.Worker, e.Kind = clock, worker, k
		h.events = append(h.events, e)
	}
	begin := func(worker int, lock string) {
		fence++
		add(worker, isGrant, event{Lock: lock, Fence: fence, Asked: clock - 50*ms, Deadline: clock + 1485*ms})
	}
	end := func(worker int, lock string) {
		add(worker, isEnd, event{Lock: lock, Deadline: clock + 1400*ms})
	}
	work := func(worker, value int) {
		begin(worker, ledger)
		clock += 10 * ms
		add(worker, isWrite, event{Lock: ledger, Fence: fence, Value: value})
		end(worker, ledger)
		clock += ms
	}

	for place := 1; place <= places; place++ {
		worker := 1 + place%3
		begin(worker, lottery)
		clock += 100 * ms
		add(worker, isDraw, event{Lock: lottery, Place: place, Winner: entrants[place]})
		end(worker, lottery)
		h.winners = append(h.winners, entrants[place])
		clock += ms
	}

	begin(1, ledger)
	clock += 10 * ms
	add(1, wasKilled, event{Lock: ledger})
	clock += 5 * ms
	add(1, wasBuried, event{})
	clock += 1490 * ms
	work(3, 1)
	work(2, 2)

	begin(2, ledger)
	stale := fence
	clock += 10 * ms
	add(2, wasPaused, event{Lock: ledger})
	clock += 1490 * ms
	work(3, 3)
	add(2, wasResumed, event{Lock: ledger})
	add(2, isWoken, event{Lock: ledger, Fence: stale, Lost: true})
	add(2, isWrite, event{Lock: ledger, Fence: stale, Value: 3, Late: true, Refused: true, Mark: fence})
	add(2, isEnd, event{Lock: ledger, Deadline: clock - 26*ms})
	clock += ms
	work(3, 4)
	return h
}

// change returns how to change the nth event of a kind.
func change(k kind, n int, how func(*event)) func(*history) {
	return func(h *history) {
		for i := range h.events {
			if e := &h.events[i]; e.Kind == k {
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

// drop returns how to take away all events of a kind.
func drop(k kind) func(*history) {
	return func(h *history) {
		h.events = slices.DeleteFunc(h.events, func(e event) bool { return e.Kind == k })
	}
}

// delayAfter returns how to make all that follows an event happen later.
func delayAfter(k kind) func(*history) {
	return func(h *history) {
		i := slices.IndexFunc(h.events, func(e event) bool { return e.Kind == k })
		for j := i + 1; j < len(h.events); j++ {
			e := &h.events[j]
			e.At += 1100 * ms
			e.Asked += 1100 * ms
			e.Deadline += 1100 * ms
		}
	}
}

// Nobody can take over on a machine that stands still.
func TestStandstillIsAllowedFor(t *testing.T) {
	h := sound()
	delayAfter(wasBuried)(h)
	h.stood = 2 * time.Second
	for _, c := range check(h, ttl) {
		if !c.OK {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
}

func TestSoundHistoryPasses(t *testing.T) {
	for _, c := range check(sound(), ttl) {
		if !c.OK {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
}

// Every check fails when what it is about goes wrong, and no other does.
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
		spoil func(*history)
		fails []string
		says  string
	}{
		{"a place drawn twice", change(isDraw, 4, func(e *event) { e.Place = 4 }), []string{draws}, "place 4 was drawn 2 times"},
		{"somebody wins twice", func(h *history) {
			change(isDraw, 4, func(e *event) { e.Winner = entrants[2] })(h)
			h.winners[4] = entrants[2]
		}, []string{draws}, "9 different people won"},
		{"one draw too many", func(h *history) {
			h.events = append(h.events, event{Worker: 1, Kind: isDraw, Place: 11, Winner: entrants[30]})
		}, []string{draws}, "11 draws were made for 10 places"},
		{"a draw lost in Redis", func(h *history) { h.winners = h.winners[:9] }, []string{draws}, "the list has 9 winners"},
		{"another name in Redis", func(h *history) { h.winners[3] = entrants[39] }, []string{draws}, "whom nobody drew"},
		{"no draw at all", func(h *history) { drop(isDraw)(h); h.winners = nil }, []string{draws}, "0 draws were made"},

		{"granted before the release", change(isGrant, 3, func(e *event) { e.At -= 2 * ms }),
			[]string{exclusion}, "worker 2 got the lock 1.0 ms before worker 1 let go of it"},
		{"granted before the deadline of a paused holder", change(isEnd, 13, func(e *event) { e.Deadline += 30 * ms }),
			[]string{exclusion}, "before worker 2 let go of it"},
		{"granted while a killed holder lived", change(wasBuried, 0, func(e *event) { e.At += 1600 * ms }),
			[]string{exclusion}, "before worker 1 let go of it"},

		{"a fence twice", change(isGrant, 5, func(e *event) { e.Fence-- }), []string{fences}, "got fence 105 after worker 3 had got 105"},
		{"a fence falls", change(isGrant, 12, func(e *event) { e.Fence = 1 }), []string{fences}, "got fence 1 after"},
		{"no fence", change(isGrant, 0, func(e *event) { e.Fence = 0 }), []string{fences}, "worked without a fence"},

		{"an update lost", func(h *history) { h.total-- }, []string{updates}, "4 writes were accepted, and the ledger stands at 3"},
		{"an update of nobody", func(h *history) { h.total++ }, []string{updates}, "the ledger stands at 5"},

		{"nobody killed", drop(wasKilled), []string{killed}, "never came to that"},
		{"taken over late after a kill", delayAfter(wasBuried), []string{killed}, "it took 2.59 s, and the TTL is 1.5 s"},
		{"nobody takes over", func(h *history) {
			i := slices.IndexFunc(h.events, func(e event) bool { return e.Kind == wasPaused })
			h.events = h.events[:i+1]
			h.total = 2
		}, []string{paused, lease, write}, "nobody got the lock after that"},
		{"nobody paused", drop(wasPaused), []string{paused}, "never came to that"},
		{"taken over late after a pause", delayAfter(wasPaused), []string{paused}, "it took 2.59 s, and the TTL is 1.5 s"},

		{"a lease that does not know", change(isWoken, 0, func(e *event) { e.Lost = false }), []string{lease}, "still holds the lock"},
		{"nobody woke up", drop(isWoken), []string{lease}, "nobody woke up"},
		{"a late write accepted", func(h *history) {
			for i := range h.events {
				if h.events[i].Late {
					h.events[i].Refused = false
				}
			}
			h.total++
		}, []string{write}, "it was accepted"},
		{"no late write", func(h *history) {
			h.events = slices.DeleteFunc(h.events, func(e event) bool { return e.Late })
		}, []string{write}, "nobody wrote late"},

		{"nothing recorded", func(h *history) { h.events, h.winners, h.total = nil, nil, 0 },
			[]string{draws, exclusion, fences, updates, killed, paused, lease, write}, "nobody ever held a lock"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := sound()
			test.spoil(h)
			var failed []string
			var said strings.Builder
			for _, c := range check(h, ttl) {
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
