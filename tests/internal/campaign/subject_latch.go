package campaign

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// Latch is a count that others wait for. Some count it down, some join it first, some wait, look
// or reset it. What they are told must follow from some order of all that, and of what may have
// been carried out though nobody heard of it. Who waits always comes back in the end: there is
// somebody then who counts down.
type Latch struct{ crowded }

func (Latch) Name() string { return "latch" }

// longestParties is how many parties a latch has at most.
const longestParties = 5

// partiesOf is how many parties a latch has, for all who use it in this history.
func partiesOf(p *Plan, name string) int {
	return 2 + rand.New(rand.NewPCG(p.Seed, uint64(name[0]))).IntN(longestParties-1)
}

// Draw returns a way to do everything there is to do.
func (Latch) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	wants := []worker.Want{drawParty(random, p, n, worker.Joining), drawParty(random, p, n, worker.Joining)}
	for share, weight := range map[worker.Share]int{worker.Counting: 4, worker.Waiting: 3, worker.Looking: 3, worker.Resetting: 1} {
		wants = append(wants, worker.Want{Name: n.Name, TTL: p.LongestTTL, Share: share, Weight: weight})
	}
	slices.SortFunc(wants, func(a, b worker.Want) int { return strings.Compare(string(a.Share), string(b.Share)) })
	for i := range wants {
		wants[i].Parties = partiesOf(p, n.Name)
	}
	return wants
}

// drawParty draws the lease of a party.
func drawParty(random *rand.Rand, p *Plan, n Name, share worker.Share) worker.Want {
	w := drawWant(random, p, n)
	w.Share, w.Poll = share, 0
	return w
}

// Finally is to wait for each latch.
func (Latch) Finally(p *Plan) (wants []worker.Want) {
	for _, n := range p.Names {
		wants = append(wants, worker.Want{Name: n.Name, TTL: p.LongestTTL, Share: worker.Waiting, Parties: partiesOf(p, n.Name)})
	}
	return wants
}

// Overlaps finds nothing: who had joined before a Reset believes to be a party until its next
// renewal, when others have joined.
func (Latch) Overlaps([]history.Event) []history.Violation { return nil }

func (Latch) Model() porcupine.Model {
	return sharesModel(everyone, func(sharesState, Taken) bool { return true })
}

func (Latch) Queue(key string) string { return key + ":latch" }

// Stays is so for a day.
func (Latch) Stays() bool { return true }

func (Latch) Judge(v *Verdict, r *Record) {
	steps := r.latestSteps()
	countSteps(v, steps)
	// The queue remembers what was counted.
	if r.Plan.has(func(k *Kind) bool { return k.Breaks != None || k.LosesQueue }) {
		return
	}
	for name, steps := range byName(steps, func(s worker.Step) string { return s.Name }) {
		judgeAnew(v, name, steps)
		decide(v, Counted, name, latchModel(partiesOf(r.Plan, name)), latchOperations(steps, r.Plan))
	}
}

// judgeAnew requires that who was told of a reset has waited while one was, or may have been.
func judgeAnew(v *Verdict, name string, steps []worker.Step) {
	for _, w := range steps {
		if w.Do == worker.Wait && w.Outcome == worker.Anew && !slices.ContainsFunc(steps, func(s worker.Step) bool {
			return s.Do == worker.Reset && s.Begun < w.Ended && (s.Outcome == worker.Unsure || s.Outcome == worker.Achieved && s.Ended > w.Begun)
		}) {
			v.find(Counted, "latch %q: process %d was told that it was begun anew, which nobody had done", name, w.Process)
		}
	}
}

// The operations of a latch's model: a step that was answered, and the number of its party; and
// these, of which nobody knows whether and when they come about, from some moment on.
type (
	latchStep struct {
		worker.Step
		party int
	}
	lateCount struct{} // a count-down that was not answered
	lateReset struct{}
	lateSeat  struct{} // whose Join brought no lease: it may be a party for a while
	lateParty struct{} // and be missing from the end of that lease on
	lateEnd   struct { // of a party
		party int
		as    partyState
	}
)

// partyState is what may become of a party.
type partyState byte

const (
	stays    partyState = iota
	mayGo               // it may be missing
	mayCount            // or may have counted down
)

// mayBeRepeated is the least time after which a request is sent again.
const mayBeRepeated = int64(5 * time.Millisecond)

// ghosts is how often a Join may have brought a lease that was over before anybody heard of it: for
// each TTL that it takes, and when it brings none in the end. orphans says that it may be carried
// out again when it has been answered.
func ghosts(s worker.Step, orphans bool) int {
	took := s.Ended - s.Begun
	n := int(took / s.TTL)
	switch {
	case s.Ended == 0:
		return 1
	case s.Outcome == worker.Achieved:
		return n
	case s.Outcome == worker.Full && took < mayBeRepeated && !orphans:
		return 0
	}
	return n + 1
}

// latchOperations makes operations of steps.
func latchOperations(steps []worker.Step, p *Plan) (all []porcupine.Operation) {
	calm, orphans := len(p.kinds) == 0, p.has(func(k *Kind) bool { return k.Orphans })
	between := func(input any, from, to int64) {
		all = append(all, porcupine.Operation{Input: input, Call: from, Return: to})
	}
	from := func(input any, when int64) { between(input, when, when) }
	ends := map[source]worker.Step{}
	for _, s := range steps {
		if s.Do == worker.Leave {
			ends[source{s.Process, s.Party}] = s
		}
	}
	for i, s := range steps {
		n := i + 1 // of the party, if it is one
		// Who finds it full may find those of whom nobody has heard.
		answered := s.Outcome == worker.Achieved || s.Outcome == worker.Full && calm
		if s.Do == worker.Join {
			for n := range ghosts(s, orphans) {
				from(lateSeat{}, s.Begun)
				from(lateParty{}, s.Begun+int64(n+1)*s.TTL)
			}
		}
		switch {
		case s.Do == worker.Join && s.Outcome == worker.Achieved:
			between(latchStep{s, n}, s.Begun, s.Ended)
			end, known := ends[source{s.Process, s.ID}]
			heard := s.Ended + 1 // a lease may be over by the time it is heard of
			switch {
			case !known:
				from(lateEnd{n, mayGo}, max(s.Deadline, heard))
			case end.Outcome == worker.Achieved:
				between(latchStep{end, n}, end.Begun, end.Ended)
			case end.Outcome == worker.Lost:
				from(lateEnd{n, mayGo}, max(end.Deadline, heard))
			case end.Counting:
				from(lateEnd{n, mayCount}, end.Begun)
			default:
				from(lateEnd{n, mayGo}, end.Begun)
			}
		case s.Do == worker.Count && s.Outcome == worker.Unsure:
			from(lateCount{}, s.Begun)
		case s.Do == worker.Reset && s.Outcome == worker.Unsure:
			from(lateReset{}, s.Begun)
		case s.Do != worker.Leave && answered, s.Do == worker.Wait && s.Outcome == worker.Incomplete:
			between(latchStep{s, 0}, s.Begun, s.Ended)
		}
	}
	return all
}

// latchState is where a latch may be.
type latchState struct {
	count, missing int
	parties        string // that have joined: their numbers, as runes, times 3, and a partyState
	// How many of what may come yet.
	counts, resets, ghosts int
	seats                  int // that may be taken by those of whom nobody has heard
}

// party returns where in s.parties a party is, or -1.
func (s latchState) party(n int) int {
	return strings.IndexFunc(s.parties, func(p rune) bool { return int(p)/3 == n })
}

func (s latchState) joined() int { return utf8.RuneCountInString(s.parties) }

// full reports whether nobody can join, or count down without having joined.
func (s latchState) full() bool { return s.joined() >= s.count }

func (s latchState) with(n int, as partyState) latchState {
	all := append([]rune(s.parties), rune(3*n+int(as)))
	slices.Sort(all)
	s.parties = string(all)
	return s
}

func (s latchState) without(n int) latchState {
	i := s.party(n)
	_, size := utf8.DecodeRuneInString(s.parties[i:])
	s.parties = s.parties[:i] + s.parties[i+size:]
	return s
}

func (s latchState) counted(missing int) latchState {
	s.count, s.missing = s.count-1, s.missing+missing
	return s
}

func (s latchState) anew(parties int) latchState {
	s.count, s.missing, s.parties = parties, 0, ""
	return s
}

// later returns what it may become by one of the things that may come.
func (s latchState) later(parties int) (all []latchState) {
	if s.counts > 0 && !s.full() {
		t := s.counted(0)
		t.counts--
		all = append(all, t)
	}
	if s.resets > 0 {
		t := s.anew(parties)
		t.resets--
		all = append(all, t)
	}
	if s.ghosts > 0 && !s.full() {
		t := s.counted(1)
		t.ghosts--
		all = append(all, t)
	}
	for _, p := range s.parties {
		n, as := int(p)/3, partyState(p%3)
		if as != stays {
			all = append(all, s.without(n).counted(1))
		}
		if as == mayCount {
			all = append(all, s.without(n).counted(0))
		}
	}
	return all
}

// step returns what an operation makes of it; false if that cannot be.
func (s latchState) step(input any, parties int) (latchState, bool) {
	switch op := input.(type) {
	case lateCount:
		s.counts++
	case lateReset:
		s.resets++
	case lateSeat:
		s.seats++
	case lateParty:
		s.ghosts++
	case lateEnd:
		if s.party(op.party) >= 0 {
			s = s.without(op.party).with(op.party, op.as)
		}
	case latchStep:
		if op.Outcome == worker.Full {
			return s, s.joined()+s.seats >= s.count
		}
		switch op.Do {
		case worker.Join:
			return s.with(op.party, stays), !s.full()
		case worker.Leave:
			if s.party(op.party) < 0 {
				return s, false
			}
			if op.Counting {
				return s.without(op.party).counted(0), true
			}
			return s.without(op.party).counted(1), true
		case worker.Count:
			if s.count == 0 {
				return s, true
			}
			return s.counted(0), !s.full()
		case worker.Reset:
			return s.anew(parties), true
		case worker.Look:
			return s, op.Left == s.count
		case worker.Wait: // Missing is 0 unless it was told of them
			return s, s.count == 0 && op.Missing == s.missing
		}
	}
	return s, true
}

// covers reports whether whatever may become of t may become of s: what may come yet need not.
func (s latchState) covers(t latchState) bool {
	return s.count == t.count && s.missing == t.missing && s.parties == t.parties && s.seats == t.seats &&
		s.counts >= t.counts && s.resets >= t.resets && s.ghosts >= t.ghosts
}

// include adds a state to others, none of which covers another, unless one covers it.
func include(states []latchState, t latchState) (all []latchState, added bool) {
	if slices.ContainsFunc(states, func(s latchState) bool { return s.covers(t) }) {
		return states, false
	}
	return append(slices.DeleteFunc(states, t.covers), t), true
}

// latchModel has the states in which the latch may be for its state: a []latchState in order.
func latchModel(parties int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return []latchState{{count: parties}} },
		Step: func(state, input, _ any) (bool, any) {
			before := slices.Clone(state.([]latchState))
			for next := slices.Clone(before); len(next) > 0; {
				s := next[len(next)-1]
				next = next[:len(next)-1]
				for _, t := range s.later(parties) {
					var added bool
					if before, added = include(before, t); added {
						next = append(next, t)
					}
				}
			}
			var after []latchState
			for _, s := range before {
				if t, ok := s.step(input, parties); ok {
					after, _ = include(after, t)
				}
			}
			slices.SortFunc(after, compareLatches)
			return len(after) > 0, after
		},
		Equal: func(a, b any) bool { return slices.Equal(a.([]latchState), b.([]latchState)) },
	}
}

func compareLatches(a, b latchState) int {
	return cmp.Or(cmp.Compare(a.count, b.count), cmp.Compare(a.missing, b.missing), cmp.Compare(a.parties, b.parties),
		cmp.Compare(a.counts, b.counts), cmp.Compare(a.resets, b.resets), cmp.Compare(a.ghosts, b.ghosts), cmp.Compare(a.seats, b.seats))
}
