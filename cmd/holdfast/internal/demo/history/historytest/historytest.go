// Package historytest has a history for tests, and ways to break it.
package historytest

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history"
)

// MS is a millisecond.
const MS = history.Instant(time.Millisecond)

// TTL is the TTL of the leases in the history.
const TTL = 1500 * time.Millisecond

// Sound returns a history that keeps every invariant: ten draws, then a ledger during which worker 1 is killed and
// worker 2 is paused.
func Sound() *history.History {
	h := &history.History{Pauses: true, Locked: true, Total: 4}
	clock, fence := 1000*MS, uint64(100)
	add := func(worker int, k history.Kind, e history.Event) {
		e.At, e.Worker, e.Kind = clock, worker, k
		h.Add(e)
	}
	begin := func(worker int, lock string) {
		fence++
		add(worker, history.Granted, history.Event{Lock: lock, Fence: fence, Asked: clock - 50*MS, Deadline: clock + 1485*MS})
	}
	end := func(worker int, lock string) {
		add(worker, history.Released, history.Event{Lock: lock, Deadline: clock + 1400*MS})
	}
	work := func(worker, value int) {
		begin(worker, history.Ledger)
		clock += 10 * MS
		add(worker, history.Wrote, history.Event{Lock: history.Ledger, Fence: fence, Value: value})
		end(worker, history.Ledger)
		clock += MS
	}

	for place := 1; place <= history.Places; place++ {
		worker, winner := 1+place%3, fmt.Sprint("winner ", place)
		begin(worker, history.Lottery)
		clock += 100 * MS
		add(worker, history.Drew, history.Event{Lock: history.Lottery, Place: place, Winner: winner})
		end(worker, history.Lottery)
		h.Winners = append(h.Winners, winner)
		clock += MS
	}

	begin(1, history.Ledger)
	clock += 10 * MS
	add(1, history.Killed, history.Event{Lock: history.Ledger})
	clock += 5 * MS
	add(1, history.Gone, history.Event{})
	clock += 1490 * MS
	work(3, 1)
	work(2, 2)

	begin(2, history.Ledger)
	stale := fence
	clock += 10 * MS
	add(2, history.Paused, history.Event{Lock: history.Ledger})
	clock += 1490 * MS
	work(3, 3)
	add(2, history.Resumed, history.Event{Lock: history.Ledger})
	add(2, history.Woke, history.Event{Lock: history.Ledger, Fence: stale, Lost: true})
	add(2, history.Wrote, history.Event{Lock: history.Ledger, Fence: stale, Value: 3, Late: true, Refused: true, Highest: fence})
	add(2, history.Released, history.Event{Lock: history.Ledger, Deadline: clock - 26*MS})
	clock += MS
	work(3, 4)
	return h
}

// Change returns a function that changes the nth event of a kind.
func Change(k history.Kind, n int, how func(*history.Event)) func(*history.History) {
	return func(h *history.History) {
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
func Drop(k history.Kind) func(*history.History) {
	return func(h *history.History) {
		h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool { return e.Kind == k })
	}
}

// DelayAfter returns a function that makes everything after the first event of a kind happen 1.1 s later.
func DelayAfter(k history.Kind) func(*history.History) {
	return func(h *history.History) {
		i := slices.IndexFunc(h.Events, func(e history.Event) bool { return e.Kind == k })
		for j := i + 1; j < len(h.Events); j++ {
			e := &h.Events[j]
			e.At += 1100 * MS
			e.Asked += 1100 * MS
			e.Deadline += 1100 * MS
		}
	}
}
