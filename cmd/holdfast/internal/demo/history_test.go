package demo

import (
	"fmt"
	"slices"
	"time"
)

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
