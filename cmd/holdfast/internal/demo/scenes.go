package demo

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

// act is the second act as it is drawn.
type act struct {
	h      *History
	grants []Grant
	scenes []scene
	spans  []span
	marks  []mark
}

type scene struct {
	title, caption string
	from, to       Instant
}

// kind says what a worker does during a span.
type kind string

const (
	waits  kind = "waits"  // in the queue
	holds  kind = "holds"  // the lock
	lease  kind = "lease"  // its lease outlives it
	dead   kind = "dead"   // killed
	paused kind = "paused" // stopped by a signal
)

// span is a period in which a worker does one thing.
type span struct {
	kind     kind
	worker   int
	from, to Instant
	fence    uint64
}

// mark is a word beside an instant, on its left if left is set.
type mark struct {
	worker int
	at     Instant
	text   string
	bad    bool
	left   bool
}

// newAct finds a hand-over, a crash and a pause in the history, and leaves out what did not happen.
func newAct(h *History) *act {
	a := &act{h: h, grants: h.Grants(Ledger)}
	ends := map[int]Instant{} // when accidents ended grants, by the grants' indices
	a.handover()
	for _, e := range h.Events {
		switch e.Kind {
		case Killed:
			a.crash(e, ends)
		case Paused:
			a.pause(e, ends)
		}
	}
	free := map[int]Instant{} // since when each worker has not had the lock
	for i, g := range a.grants {
		until := g.End()
		if at, befell := ends[i]; befell {
			until = at
		}
		a.spans = append(a.spans, span{waits, g.Worker, max(g.Asked, free[g.Worker]), g.At, 0}, span{holds, g.Worker, g.At, until, g.Fence})
		free[g.Worker] = until
	}
	return a
}

// within returns the part of a span that a scene shows. It returns false if the scene shows nothing of it.
func (s scene) within(p span) (span, bool) {
	p.from, p.to = max(p.from, s.from), min(p.to, s.to)
	return p, p.from < p.to
}

// handover adds a scene with a hand-over and its neighbours, if possible from before the accidents.
func (a *act) handover() {
	follows := func(i int) bool {
		return 0 < i && i < len(a.grants) && a.grants[i].FollowsDirectly(a.grants[i-1]) && a.grants[i].Worker != a.grants[i-1].Worker
	}
	accident := slices.IndexFunc(a.h.Events, func(e Event) bool { return e.Kind == Stalled })
	calm := slices.IndexFunc(a.grants, func(g Grant) bool { return accident >= 0 && g.End() >= a.h.Events[accident].At })
	i := max(calm, 0) / 2
	for ; i < len(a.grants) && !follows(i); i++ {
	}
	if i >= len(a.grants) {
		return
	}
	oldest, newest := i-1, i
	for range 2 {
		if follows(oldest) {
			oldest--
		}
		if follows(newest + 1) {
			newest++
		}
	}
	before, g := a.grants[i-1], a.grants[i]
	a.scenes = append(a.scenes, scene{"A hand-over",
		fmt.Sprintf("Worker %d releases the lock, and worker %d, the first in the queue, holds it %s later. Nobody polls.",
			before.Worker, g.Worker, console.Duration(g.At-before.Released)),
		a.grants[oldest].At, a.grants[newest].End()})
}

// crash adds a scene with what follows when a holder is killed.
func (a *act) crash(e Event, ends map[int]Instant) {
	held, next := a.around(e)
	if held < 0 || next < 0 {
		return
	}
	g, after := a.grants[held], a.grants[next]
	ends[held] = e.At
	a.spans = append(a.spans,
		span{lease, e.Worker, e.At, after.At, g.Fence},
		span{dead, e.Worker, e.At, a.first(Ready, e).At, 0})
	a.marks = append(a.marks, mark{worker: e.Worker, at: e.At, text: "kill -9", bad: true})
	a.add("A crash", fmt.Sprintf("Worker %d is killed while it holds the lock. Its lease of %s ends, "+
		"and worker %d has the lock %s after the kill.",
		e.Worker, console.Duration(ttl), after.Worker, console.Duration(after.At-e.At)), g.At, after.At)
}

// pause adds a scene with a holder that sleeps past its lease, and writes when it wakes.
func (a *act) pause(e Event, ends map[int]Instant) {
	held, next := a.around(e)
	resumed := a.first(Resumed, e)
	woken, wrote := a.first(Woke, resumed), a.first(Wrote, resumed)
	if held < 0 || next < 0 || woken.Fence == 0 || wrote.Fence == 0 {
		return
	}
	said, verdict, why := "still held", "accepted", ""
	if woken.Lost {
		said = "lost"
	}
	if wrote.Refused {
		verdict, why = "refused", fmt.Sprintf(": %s < %s", Fence(wrote.Fence), Fence(wrote.Highest))
	}
	ends[held] = e.At
	a.spans = append(a.spans,
		span{lease, e.Worker, e.At, a.grants[next].At, a.grants[held].Fence},
		span{paused, e.Worker, e.At, resumed.At, 0})
	a.marks = append(a.marks,
		mark{worker: e.Worker, at: e.At, text: "kill -STOP", bad: true},
		mark{worker: e.Worker, at: wrote.At, text: "write " + verdict, bad: !wrote.Refused, left: true})
	a.add("A pause", fmt.Sprintf("Worker %d sleeps past its lease. Woken, it finds the lease %s; its write is %s%s.",
		e.Worker, said, verdict, why), a.grants[held].At, wrote.At)
}

// add adds a scene from one instant to another, with a margin on both sides.
func (a *act) add(title, caption string, from, to Instant) {
	margin := (to - from) / 20
	a.scenes = append(a.scenes, scene{title, caption, from - margin, to + margin})
}

// around returns the indices of the grant that an accident ended, and of the next grant of another worker; -1 for none.
func (a *act) around(e Event) (held, next int) {
	held = -1
	for i, g := range a.grants {
		if g.Worker == e.Worker && g.At <= e.At {
			held = i
		}
	}
	return held, slices.IndexFunc(a.grants, func(g Grant) bool { return g.Worker != e.Worker && g.At > e.At })
}

// first returns the same worker's first event of a kind after another event. If there is none, its time is a day from now.
func (a *act) first(k Kind, after Event) Event {
	for _, e := range a.h.Events {
		if e.Kind == k && e.Worker == after.Worker && e.At >= after.At {
			return e
		}
	}
	return Event{Worker: after.Worker, At: Now() + 24*time.Hour}
}
