package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/format"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history"
)

// A scene is a part of the second act: what each worker did from one instant to another.
type scene struct {
	title, caption string
	from, to       history.Instant
	spans          []span
	marks          []mark

	accident, takeover history.Instant // 0 if there was none
	victim             int
}

// kind says what a worker does in a span.
type kind string

const (
	waits  kind = "waits"  // in the queue
	holds  kind = "holds"  // the lock
	lease  kind = "lease"  // its lease goes on without it
	dead   kind = "dead"   // killed
	paused kind = "paused" // stopped by a signal
)

// span is what a worker does for some time.
type span struct {
	kind     kind
	worker   int
	from, to history.Instant
	fence    uint64
}

// mark is a word about an instant. It stands left of it if left is set.
type mark struct {
	worker int
	at     history.Instant
	text   string
	bad    bool
	left   bool
}

// scenesOf finds a hand-over, a crash and a pause in the history of the second act, and leaves out what did not happen.
func scenesOf(h *history.History, ttl time.Duration) []*scene {
	grants := h.Grants(history.Ledger)
	var scenes []*scene
	if s := handover(h, grants); s != nil {
		scenes = append(scenes, s)
	}
	for _, e := range h.Events {
		var s *scene
		switch e.Kind {
		case history.Killed:
			s = crash(grants, e, ttl)
		case history.Paused:
			s = pause(h, grants, e)
		}
		if s != nil {
			scenes = append(scenes, s)
		}
	}
	for _, s := range scenes {
		s.addGrants(grants)
	}
	return scenes
}

// handover shows one of the hand-overs before the accidents, with those around it.
func handover(h *history.History, grants []history.Grant) *scene {
	accident := h.Events[len(h.Events)-1].At
	for _, e := range h.Events {
		if e.Kind == history.Stalled || e.Kind == history.Killed || e.Kind == history.Paused {
			accident = min(accident, e.At)
		}
	}
	var calm, all []int
	for i := 1; i < len(grants); i++ {
		if grants[i].FollowsDirectly(grants[i-1]) && grants[i].Worker != grants[i-1].Worker {
			all = append(all, i)
			if grants[i].End() < accident {
				calm = append(calm, i)
			}
		}
	}
	if len(calm) > 0 {
		all = calm
	}
	if len(all) == 0 {
		return nil
	}
	i := all[len(all)/2]
	before, g := grants[i-1], grants[i]
	usual := g.End().Sub(before.At)
	oldest, newest := i-1, i
	for range 2 {
		if oldest > 0 && grants[oldest].FollowsDirectly(grants[oldest-1]) && grants[oldest].At.Sub(grants[oldest-1].At) < 2*usual {
			oldest--
		}
		if newest+1 < len(grants) && grants[newest+1].FollowsDirectly(grants[newest]) && grants[newest+1].End().Sub(grants[newest+1].At) < 2*usual {
			newest++
		}
	}
	return &scene{
		title: "A hand-over",
		caption: fmt.Sprintf("Worker %d releases the lock, and worker %d, the first in the queue, holds it %s later. Nobody polls.",
			before.Worker, g.Worker, format.Duration(g.At.Sub(before.Released))),
		from: grants[oldest].At, to: grants[newest].End(),
	}
}

// crash shows what follows when a holder is killed.
func crash(grants []history.Grant, e history.Event, ttl time.Duration) *scene {
	held, next := around(grants, e)
	if held == nil || next == nil {
		return nil
	}
	s := &scene{
		title: "A crash",
		caption: fmt.Sprintf("Worker %d is killed while it holds the lock. Its lease of %s ends, and worker %d has the lock %s after the kill.",
			e.Worker, format.Duration(ttl), next.Worker, format.Duration(next.At.Sub(e.At))),
		accident: e.At, takeover: next.At, victim: e.Worker,
	}
	s.margins(held.At, next.At)
	s.spans = []span{{lease, e.Worker, e.At, next.At, held.Fence}, {dead, e.Worker, e.At, s.to, 0}}
	s.marks = []mark{{worker: e.Worker, at: e.At, text: "kill -9", bad: true}}
	return s
}

// pause shows a holder that sleeps past its lease, and writes when it wakes.
func pause(h *history.History, grants []history.Grant, e history.Event) *scene {
	held, next := around(grants, e)
	var woken, wrote history.Event
	resumed := first(h, history.Resumed, e)
	if resumed.At != 0 {
		woken, wrote = first(h, history.Woke, resumed), first(h, history.Wrote, resumed)
	}
	if held == nil || next == nil || woken.At == 0 || wrote.At == 0 {
		return nil
	}
	said, verdict, why := "still held", "accepted", ""
	if woken.Lost {
		said = "lost"
	}
	if wrote.Refused {
		verdict, why = "refused", fmt.Sprintf(": %s < %s", format.Fence(wrote.Fence), format.Fence(wrote.Highest))
	}
	s := &scene{
		title: "A pause",
		caption: fmt.Sprintf("Worker %d sleeps past its lease. Woken, it finds the lease %s; its write is %s%s.",
			e.Worker, said, verdict, why),
		accident: e.At, takeover: next.At, victim: e.Worker,
	}
	s.margins(held.At, wrote.At)
	s.spans = []span{{lease, e.Worker, e.At, next.At, held.Fence}, {paused, e.Worker, e.At, resumed.At, 0}}
	s.marks = []mark{{worker: e.Worker, at: e.At, text: "kill -STOP", bad: true}, {worker: e.Worker, at: wrote.At, text: "write " + verdict, bad: !wrote.Refused, left: true}}
	return s
}

// around returns the grant that an accident befell, and the first one after it. They are nil if there is none.
func around(grants []history.Grant, e history.Event) (held, next *history.Grant) {
	for i := range grants {
		g := &grants[i]
		switch {
		case g.Worker == e.Worker && g.At <= e.At:
			held = g
		case g.Worker != e.Worker && g.At > e.At && next == nil:
			next = g
		}
	}
	return held, next
}

// first returns the first event of a kind, from the same worker, after another.
func first(h *history.History, k history.Kind, after history.Event) history.Event {
	for _, e := range h.Events {
		if e.Kind == k && e.Worker == after.Worker && e.At >= after.At {
			return e
		}
	}
	return history.Event{}
}

// margins sets the scene's time: from one instant to another, and a little on both sides.
func (s *scene) margins(from, to history.Instant) {
	margin := to.Sub(from) / 20
	s.from, s.to = from.Add(-margin), to.Add(margin)
}

// addGrants adds who waited and who held the lock.
func (s *scene) addGrants(grants []history.Grant) {
	free := map[int]history.Instant{} // since when each worker has not had the lock
	for _, g := range grants {
		until := g.End()
		if g.Worker == s.victim && g.At <= s.accident && s.accident < until {
			until = s.accident
		}
		s.spans = append(s.spans, span{waits, g.Worker, max(g.Asked, free[g.Worker]), g.At, 0}, span{holds, g.Worker, g.At, until, g.Fence})
		free[g.Worker] = until
	}
	s.spans = slices.DeleteFunc(s.spans, func(p span) bool { return p.to <= s.from || p.from >= s.to })
	for i := range s.spans {
		p := &s.spans[i]
		p.from, p.to = max(p.from, s.from), min(p.to, s.to)
	}
}

// moment says who holds the lock and who waits for it, from an instant on.
type moment struct {
	at   history.Instant
	text string
}

// moments returns those that last long enough to be read, and the takeover.
func (s *scene) moments() []moment {
	changes := []history.Instant{s.from}
	for _, p := range s.spans {
		changes = append(changes, p.from)
		if p.kind == holds {
			changes = append(changes, p.to)
		}
	}
	slices.Sort(changes)
	changes = slices.Compact(changes)
	enough := s.to.Sub(s.from) / 60
	var all []moment
	for i, at := range changes {
		until := s.to
		if i+1 < len(changes) {
			until = changes[i+1]
		}
		taken := at == s.takeover && at != 0
		if !taken && (until.Sub(at) < enough || s.takeover != 0 && at > s.takeover) {
			continue
		}
		if text := s.state(at); len(all) == 0 || all[len(all)-1].text != text {
			all = append(all, moment{at, text})
		}
	}
	return all
}

// state says who holds the lock at an instant, and who waits for it, in the order in which they began to.
func (s *scene) state(at history.Instant) string {
	var queue []span
	holder := "nobody holds the lock"
	for _, p := range s.spans {
		switch {
		case p.from > at || at >= p.to:
		case p.kind == waits:
			queue = append(queue, p)
		case p.kind == holds:
			holder = fmt.Sprintf("worker %d holds the lock with fence %s", p.worker, format.Fence(p.fence))
		case p.kind == lease:
			holder = fmt.Sprintf("worker %d does not run, and its lease with fence %s goes on", p.worker, format.Fence(p.fence))
		}
	}
	if len(queue) == 0 {
		return holder + "; nobody waits"
	}
	slices.SortStableFunc(queue, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	names := make([]string, len(queue))
	for i, p := range queue {
		names[i] = fmt.Sprint(p.worker)
	}
	return holder + "; waiting: " + strings.Join(names, ", ")
}
