package demo

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// The names of the locks, and of the registers that they guard.
const (
	Lottery = "lottery"
	Ledger  = "ledger"
)

// Places is the number of winners.
const Places = 10

// Kind is the kind of an Event.
type Kind string

// What a worker reports about itself.
const (
	Ready    Kind = "ready"
	Granted  Kind = "grant"  // Acquire, called at Asked, has returned
	Read     Kind = "read"   // the register was read, and now refuses fences below Fence
	Drew     Kind = "draw"   // Winner was drawn for Place
	Wrote    Kind = "write"  // the register was written, or refused the write
	Stalled  Kind = "stall"  // the worker stays in the middle of its turn
	Woke     Kind = "woken"  // after a stall, the worker asked its lease whether it is Lost
	Released Kind = "end"    // Release is called
	Finished Kind = "rested" // the ordered work is done
	Failed   Kind = "error"
)

// What the demo does to a worker.
const (
	Killed  Kind = "killed"  // before SIGKILL is sent
	Gone    Kind = "gone"    // the process has ended
	Paused  Kind = "paused"  // before SIGSTOP is sent
	Resumed Kind = "resumed" // before SIGCONT is sent
)

// Event is something that happened. Workers write their events to standard output, one on a line.
type Event struct {
	At     Instant `json:"at"`
	Worker int     `json:"worker"`
	Kind   Kind    `json:"kind"`
	Lock   string  `json:"lock,omitempty"`

	Asked    Instant `json:"asked,omitempty"`
	Fence    uint64  `json:"fence,omitempty"`
	Deadline Instant `json:"deadline,omitempty"`
	Lost     bool    `json:"lost,omitempty"`

	Place  int    `json:"place,omitempty"`
	Winner string `json:"winner,omitempty"`

	Value   int    `json:"value,omitempty"`
	Late    bool   `json:"late,omitempty"` // the write followed a stall
	Refused bool   `json:"refused,omitempty"`
	Highest uint64 `json:"mark,omitempty"` // the highest fence that the register had seen

	Text string `json:"text,omitempty"` // for people
}

// Fence returns the last 10 digits of a fence. Fences are close to times in microseconds, so within a run these digits rise as the
// fences do.
func Fence(f uint64) string { return fmt.Sprintf("…%010d", f%1e10) }

// Grant is a period during which a worker had a lock.
type Grant struct {
	Worker   int
	At       Instant
	Released Instant // when Release was called; 0 if it was not
	Died     Instant // when the process ended while it had the lock; 0 if it did not
	Fence    uint64
	Asked    Instant // when Acquire was called
	deadline Instant // as last reported by the worker
}

// End returns when the worker stopped believing that it had the lock. If it was killed, that is when the process ended, because it may have
// renewed its lease after it last reported the deadline.
func (g Grant) End() Instant {
	switch {
	case g.Died != 0:
		return g.Died
	case g.Released != 0:
		return min(g.Released, g.deadline)
	}
	return g.deadline
}

// FollowsDirectly reports whether the previous holder released the lock while this one was waiting for it.
func (g Grant) FollowsDirectly(before Grant) bool {
	return before.Released != 0 && before.Released < before.deadline && g.Asked < before.Released
}

// held reports whether the worker ever believed that it had the lock. It did not if the grant arrived after its deadline.
func (g Grant) held() bool { return g.At < g.End() }

// History is what was recorded during a demo, and what the registers contained at its end.
type History struct {
	Events  []Event
	Winners []string      // in the register of the lottery
	Total   int           // in the register of the ledger
	Pauses  bool          // this system can pause a process
	Locked  bool          // the lock was used
	Stood   time.Duration // how long the machine stood still, so that no worker could take over
}

func (h *History) Add(e Event) { h.Events = append(h.Events, e) }

// Grants returns the grants of a lock in order.
func (h *History) Grants(lock string) []Grant {
	var all []Grant
	open := map[int]int{} // worker → index of its current grant
	for _, e := range h.Events {
		i, holds := open[e.Worker]
		switch {
		case e.Kind == Granted && e.Lock == lock:
			open[e.Worker] = len(all)
			all = append(all, Grant{Worker: e.Worker, At: e.At, Fence: e.Fence, Asked: e.Asked, deadline: e.Deadline})
		case e.Kind == Released && e.Lock == lock && holds:
			all[i].Released, all[i].deadline = e.At, e.Deadline
			delete(open, e.Worker)
		case e.Kind == Gone && holds:
			all[i].Died = e.At
			delete(open, e.Worker)
		}
	}
	slices.SortStableFunc(all, func(a, b Grant) int { return cmp.Compare(a.At, b.At) })
	return all
}

// Of returns the events of a kind, in the order in which they arrived.
func (h *History) Of(k Kind) []Event {
	var some []Event
	for _, e := range h.Events {
		if e.Kind == k {
			some = append(some, e)
		}
	}
	return some
}

// Takeovers returns, for each accident of a kind to the ledger's holder, the time until the next grant. It is negative if there was none.
func (h *History) Takeovers(k Kind) []time.Duration {
	grants := h.Grants(Ledger)
	var idle []time.Duration
	for _, e := range h.Of(k) {
		i := slices.IndexFunc(grants, func(g Grant) bool { return g.At > e.At })
		if i < 0 {
			idle = append(idle, -1)
			continue
		}
		idle = append(idle, grants[i].At-e.At)
	}
	return idle
}

// Handovers returns how long each direct hand-over took: from the call of Release to the first step of the next holder.
func (h *History) Handovers() []time.Duration {
	var took []time.Duration
	for _, lock := range []string{Lottery, Ledger} {
		grants := h.Grants(lock)
		for i := 1; i < len(grants); i++ {
			before, g := grants[i-1], grants[i]
			if g.FollowsDirectly(before) {
				took = append(took, g.At-before.Released)
			}
		}
	}
	return took
}

// Instant is a moment on a clock that all processes of the demo share, so that their records can be put in order. 0 means never.
type Instant = time.Duration

// At converts a time, such as a lease's deadline, to an Instant. A pause between its two readings of clocks makes the result too early, so
// no record says that a lease lasted longer than it did.
func At(t time.Time) Instant { return Now() + time.Until(t) }
