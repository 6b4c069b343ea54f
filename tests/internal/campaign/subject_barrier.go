package campaign

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// crowded is common to latches and barriers.
type crowded struct{ alone }

func (crowded) FencesTellTurns() bool { return false }

// countSteps counts the steps that are neither grants nor ends of grants.
func countSteps(v *Verdict, steps []worker.Step) {
	for _, s := range steps {
		if s.Ended != 0 && s.Do != worker.Join && s.Do != worker.Leave {
			v.Operations++
		}
	}
}

// Barrier makes a number of parties wait for each other, phase after phase. There are never more parties at a
// time. In the end each process passes each barrier once more, with helpers as the other parties.
type Barrier struct{ crowded }

func (Barrier) Name() string { return "barrier" }

// crowd is how many parties a barrier has.
const crowd = 3

// Prepare leaves two barriers at most, so that enough come to each.
func (Barrier) Prepare(p *Plan) { p.Names = p.Names[:min(len(p.Names), 2)] }

func (Barrier) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	return drawWants(random, p, n, 2, func(w *worker.Want) { w.Share, w.Poll, w.Parties = worker.Meeting, 0, crowd })
}

func (Barrier) Finally(p *Plan) []worker.Want {
	return ofEach(p, func(w *worker.Want, _ Name) { w.Share, w.Parties = worker.Meeting, crowd })
}

func (Barrier) Overlaps(events []history.Event) []history.Violation {
	return history.Crowding(events, crowd)
}

func (Barrier) Model() porcupine.Model {
	return sharesModel(crowd, func(sharesState, Taken) bool { return true })
}

func (Barrier) Queue(key string) string { return key + ":bar" }

// Judge checks what parties were told of phases.
func (Barrier) Judge(v *Verdict, r *Record) {
	steps := r.latestSteps()
	countSteps(v, steps)
	if r.Plan.has(func(k *Kind) bool { return k.Breaks != None }) {
		return
	}
	orphans := r.Plan.has(func(k *Kind) bool { return k.Orphans })
	for name, steps := range byName(steps, func(s worker.Step) string { return s.Name }) {
		b := barrierOf(name, steps)
		b.judgeTurns(v)
		b.judgeCrowds(v)
		b.judgeOutcomes(v)
		if !orphans {
			b.judgeCauses(v)
		}
	}
}

// party is what a party of a barrier was told.
type party struct {
	join, end worker.Step // end has no ID if the party did not end
	arrivals  []arrival
}

// arrival is one await of a party, from its first call to the one that told it of a phase. The party can have
// arrived at any time in between.
type arrival struct {
	*party
	from, to int64
	phase    uint64 // 0: it was told of none
	broken   bool
	died     bool // how its breaker ended
}

// barrier is what is known of a barrier's parties.
type barrier struct {
	name    string
	parties []*party
	joins   []worker.Step // including those without a lease
}

func barrierOf(name string, steps []worker.Step) *barrier {
	b := &barrier{name: name}
	slices.SortFunc(steps, func(a, b worker.Step) int { return cmp.Compare(a.Begun, b.Begun) })
	parties := map[source]*party{}
	waiting := map[*party]int64{} // the time since which each waits
	for _, s := range steps {
		p := parties[source{s.Process, s.Party}]
		switch s.Do {
		case worker.Join:
			b.joins = append(b.joins, s)
			if s.Outcome != worker.Achieved {
				continue
			}
			p = &party{join: s}
			parties[source{s.Process, s.ID}] = p
			b.parties = append(b.parties, p)
		case worker.Leave:
			p.end = s
		case worker.Await:
			since := s.Begun
			if before, ok := waiting[p]; ok {
				since = before
			}
			if s.Outcome != worker.Achieved && s.Outcome != worker.Broken {
				waiting[p] = since // it may have arrived
				continue
			}
			delete(waiting, p)
			p.arrivals = append(p.arrivals, arrival{p, since, s.Ended, s.Phase, s.Outcome == worker.Broken, s.Died})
		}
	}
	for p, since := range waiting {
		p.arrivals = append(p.arrivals, arrival{party: p, from: since, to: math.MaxInt64})
	}
	return b
}

// judgeTurns requires that a party is told of every phase once, in order. It may miss phases only after a
// broken one.
func (b *barrier) judgeTurns(v *Verdict) {
	for _, p := range b.parties {
		var last arrival
		for _, a := range p.arrivals {
			if a.phase == 0 {
				continue
			}
			if last.phase != 0 && (a.phase <= last.phase || !last.broken && a.phase != last.phase+1) {
				v.find(Phases, "barrier %q: a party of process %d was told of phase %d after phase %d", b.name, p.join.Process, a.phase, last.phase)
			}
			last = a
		}
	}
}

// judgeCrowds requires that before a party passed a phase there was a moment at which all the barrier's parties
// had arrived and none of them had been told of the phase.
func (b *barrier) judgeCrowds(v *Verdict) {
	b.each(func(a arrival) {
		if a.phase == 0 || a.broken {
			return
		}
		var with []arrival
		b.each(func(o arrival) {
			if (o.phase == 0 || o.phase == a.phase && !o.broken) && o.from <= a.to && a.from <= o.to {
				with = append(with, o)
			}
		})
		most := 0
		for _, last := range with { // of those to arrive
			at := max(last.from, a.from)
			there := map[*party]bool{}
			for _, o := range with {
				if o.from <= at && at <= o.to {
					there[o.party] = true
				}
			}
			most = max(most, len(there))
		}
		if most < crowd {
			v.find(Phases, "barrier %q: a party of process %d passed phase %d when %d of %d parties can have arrived", b.name, a.join.Process, a.phase, most, crowd)
		}
	})
}

func (b *barrier) each(f func(arrival)) {
	for _, p := range b.parties {
		for _, a := range p.arrivals {
			f(a)
		}
	}
}

// judgeOutcomes requires that a phase which one party passed is broken for no other. Phase numbers repeat only
// after a time without parties, so it compares parties that certainly met.
func (b *barrier) judgeOutcomes(v *Verdict) {
	b.each(func(a arrival) {
		b.each(func(o arrival) {
			if a.phase != 0 && a.phase == o.phase && !a.broken && o.broken && a.meets(o.party) {
				v.find(Phases, "barrier %q: a party of process %d passed phase %d, which was broken for one of process %d", b.name, a.join.Process, a.phase, o.join.Process)
			}
		})
	})
}

// over returns when the party stopped believing that it was one, as far as is known.
func (p *party) over() int64 {
	if p.end.ID != 0 {
		return min(p.end.Begun, p.end.Deadline)
	}
	return p.join.Deadline
}

// meets reports whether both were certainly parties at the same time.
func (p *party) meets(o *party) bool {
	return max(p.join.Ended, o.join.Ended) < min(p.over(), o.over())
}

// judgeCauses requires that somebody broke each broken phase.
func (b *barrier) judgeCauses(v *Verdict) {
	for _, p := range b.parties {
		// A phase cannot have ended before the party's previous arrival. The first phase has no such bound: the
		// party may have been given a place that the server granted long before to another goroutine of its
		// process.
		var since int64
		for _, a := range p.arrivals {
			if a.broken && !b.hasCause(a, since) {
				how := "left"
				if a.died {
					how = "died"
				}
				v.find(Phases, "barrier %q: a party of process %d was told that phase %d was broken by one that has %s; there is none", b.name, p.join.Process, a.phase, how)
			}
			since = a.from
		}
	}
}

// hasCause reports whether somebody can have broken a phase.
func (b *barrier) hasCause(a arrival, since int64) bool {
	if a.died && slices.ContainsFunc(b.joins, func(s worker.Step) bool { return s.Begun < a.to && ghosts(s, false) > 0 }) {
		return true
	}
	return slices.ContainsFunc(b.parties, func(p *party) bool {
		left := p.end.Outcome == worker.Achieved
		switch {
		case p == a.party:
			return false
		case a.died:
			return !left && p.over() < a.to
		}
		// A release that failed is tried again later.
		return p.end.ID != 0 && p.end.Begun < a.to && (!left && p.end.Outcome != worker.Lost || left && p.end.Ended > since)
	})
}
