package demo

import (
	"cmp"
	"slices"
	"time"
)

// The names of the two locks, and of the registers that they guard.
const (
	lottery = "lottery"
	ledger  = "ledger"
)

// kind says what happened.
type kind string

// What a worker reports of itself.
const (
	isReady  kind = "ready"
	isGrant  kind = "grant"  // Acquire returned; Asked is when it was called
	isRead   kind = "read"   // the register was read, and knows Fence
	isDraw   kind = "draw"   // Winner was drawn for Place
	isWrite  kind = "write"  // the register was written to, or refused it
	isStall  kind = "stall"  // the worker stays in the middle of its work
	isWoken  kind = "woken"  // the paused worker looked at its lease: Lost tells
	isEnd    kind = "end"    // at the call of Release, or when Lost was found out
	isRested kind = "rested" // the work that was ordered is done
	isError  kind = "error"
)

// What the demo itself does to a worker.
const (
	wasKilled  kind = "killed"  // before SIGKILL was sent
	wasBuried  kind = "buried"  // the process is gone
	wasPaused  kind = "paused"  // before SIGSTOP was sent
	wasResumed kind = "resumed" // before SIGCONT was sent
)

// event is one line that a worker writes to its standard output.
type event struct {
	At     instant `json:"at"`
	Worker int     `json:"worker"`
	Kind   kind    `json:"kind"`
	Lock   string  `json:"lock,omitempty"`

	Asked    instant `json:"asked,omitempty"`
	Fence    uint64  `json:"fence,omitempty"`
	Deadline instant `json:"deadline,omitempty"`
	Lost     bool    `json:"lost,omitempty"`

	Place  int    `json:"place,omitempty"`
	Winner string `json:"winner,omitempty"`

	Value   int    `json:"value,omitempty"`
	Late    bool   `json:"late,omitempty"` // a write after the worker knew that its lease was lost
	Refused bool   `json:"refused,omitempty"`
	Mark    uint64 `json:"mark,omitempty"` // the fence that the register had seen

	Text string `json:"text,omitempty"` // for people
}

// grant is a lock that a worker had.
type grant struct {
	worker   int
	lock     string
	fence    uint64
	asked    instant
	at       instant
	deadline instant // as far as the worker knew when it last told
	released instant // call of Release; 0 if it never came to that
	died     instant // of the process; 0 if it lived on
}

// end is when the worker stopped to believe that it held the lock. A process
// that was killed may have renewed its lease after it last told the deadline,
// and held on to its end.
func (g grant) end() instant {
	switch {
	case g.died != 0:
		return g.died
	case g.released != 0:
		return min(g.released, g.deadline)
	}
	return g.deadline
}

// held reports whether the worker ever had reason to believe that it held the
// lock: a grant that is heard of after its deadline is none.
func (g grant) held() bool { return g.at < g.end() }

// history is what was recorded, and what the registers held at the end.
type history struct {
	events  []event
	winners []string // in the register of the lottery
	total   int      // in the register of the ledger
	pauses  bool     // whether this system can pause a process
	locked  bool     // whether the lock was used at all

	stood time.Duration // for which the machine stood still, and nobody could take over
}

// grants returns the grants of a lock in their order.
func (h *history) grants(lock string) []grant {
	var all []grant
	open := map[int]int{} // worker → index of the grant that it has
	for _, e := range h.events {
		i, holds := open[e.Worker]
		switch {
		case e.Kind == isGrant && e.Lock == lock:
			open[e.Worker] = len(all)
			all = append(all, grant{
				worker: e.Worker, lock: lock, fence: e.Fence,
				asked: e.Asked, at: e.At, deadline: e.Deadline,
			})
		case e.Kind == isEnd && e.Lock == lock && holds:
			all[i].released, all[i].deadline = e.At, e.Deadline
			delete(open, e.Worker)
		case e.Kind == wasBuried && holds:
			all[i].died = e.At
			delete(open, e.Worker)
		}
	}
	slices.SortStableFunc(all, func(a, b grant) int { return cmp.Compare(a.at, b.at) })
	return all
}

// pick returns the events of a kind, in the order in which they arrived.
func (h *history) pick(k kind) []event {
	var some []event
	for _, e := range h.events {
		if e.Kind == k {
			some = append(some, e)
		}
	}
	return some
}

// takeovers returns for each event of that kind, which took the ledger's lock
// from its holder, how long the lock then lay idle; negative where nobody else
// got it any more.
func (h *history) takeovers(k kind) []time.Duration {
	grants := h.grants(ledger)
	var idle []time.Duration
	for _, e := range h.pick(k) {
		i := slices.IndexFunc(grants, func(g grant) bool { return g.at > e.At })
		if i < 0 {
			idle = append(idle, -1)
			continue
		}
		idle = append(idle, grants[i].at.sub(e.At))
	}
	return idle
}

// handovers returns how long each direct hand-over took: from the call of
// Release to the next holder's running, where that one was waiting already.
func (h *history) handovers() []time.Duration {
	var took []time.Duration
	for _, lock := range []string{lottery, ledger} {
		grants := h.grants(lock)
		for i := 1; i < len(grants); i++ {
			before, g := grants[i-1], grants[i]
			if before.released != 0 && before.released < before.deadline && g.asked < before.released {
				took = append(took, g.at.sub(before.released))
			}
		}
	}
	return took
}
