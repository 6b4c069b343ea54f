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

// Latch is a count that processes wait for. Some count it down, some join it first, some wait for it, look at
// it or reset it. Some order of these steps, and of unanswered ones that the server may have carried out, must
// explain all answers. In the end every waiter returns, since others then count the latch down.
type Latch struct{ crowded }

func (Latch) Name() string { return "latch" }

// longestParties is the largest number of parties of a latch.
const longestParties = 5

// partiesOf returns how many parties a latch has for all its users in this history.
func partiesOf(p *Plan, name string) int {
	return 2 + rand.New(rand.NewPCG(p.Seed, uint64(name[0]))).IntN(longestParties-1)
}

// Draw returns a way for each operation.
func (Latch) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	wants := []worker.Want{drawWant(random, p, n), drawWant(random, p, n)}
	for i := range wants {
		wants[i].Share, wants[i].Poll = worker.Joining, 0
	}
	for share, weight := range map[worker.Share]int{worker.Counting: 4, worker.Waiting: 3, worker.Looking: 3, worker.Resetting: 1} {
		wants = append(wants, worker.Want{Name: n.Name, TTL: p.LongestTTL, Share: share, Weight: weight})
	}
	slices.SortFunc(wants, func(a, b worker.Want) int { return strings.Compare(string(a.Share), string(b.Share)) })
	for i := range wants {
		wants[i].Parties = partiesOf(p, n.Name)
	}
	return wants
}

// Finally is to wait for each latch.
func (Latch) Finally(p *Plan) []worker.Want {
	return ofEach(p, func(w *worker.Want, n Name) { w.Share, w.Parties = worker.Waiting, partiesOf(p, n.Name) })
}

// Overlaps finds nothing: a party that joined before a Reset believes that it is a party until its next
// renewal, when others have already joined.
func (Latch) Overlaps([]history.Event) []history.Violation { return nil }

func (Latch) Model() porcupine.Model {
	return sharesModel(everyone, func(sharesState, Taken) bool { return true })
}

func (Latch) Queue(key string) string { return key + ":latch" }

// Stays returns true: the key stays for a day.
func (Latch) Stays() bool { return true }

func (Latch) Judge(v *Verdict, r *Record) {
	steps := r.latestSteps()
	countSteps(v, steps)
	// The queue remembers which requests were counted.
	if r.Plan.has(func(k *Kind) bool { return k.Breaks != None || k.LosesQueue }) {
		return
	}
	for name, steps := range byName(steps, func(s worker.Step) string { return s.Name }) {
		judgeAnew(v, name, steps)
		decide(v, Counted, name, latchModel(partiesOf(r.Plan, name)), latchOperations(steps, r.Plan))
	}
}

// judgeAnew requires that a waiter which was told of a reset waited while a reset happened or may have
// happened.
func judgeAnew(v *Verdict, name string, steps []worker.Step) {
	for _, w := range steps {
		if w.Do == worker.Wait && w.Outcome == worker.Anew && !slices.ContainsFunc(steps, func(s worker.Step) bool {
			return s.Do == worker.Reset && s.Begun < w.Ended && (s.Outcome == worker.Unsure || s.Outcome == worker.Achieved && s.Ended > w.Begun)
		}) {
			v.find(Counted, "latch %q: process %d was told that it was begun anew, which nobody had done", name, w.Process)
		}
	}
}

// These are the operations of a latch's model: a step that was answered, with the number of its party; and some
// that may happen at any time after a given moment, or never.
type (
	latchStep struct {
		worker.Step
		party int
	}
	lateCount struct{} // a count-down that was not answered
	lateReset struct{}
	lateSeat  struct{} // a Join without a lease: it may be a party for a while
	lateParty struct{} // and be missing after that lease
	lateEnd   struct { // of a party
		party int
		as    partyState
	}
)

// partyState is what may happen to a party.
type partyState byte

const (
	stays    partyState = iota
	mayGo               // it may be missing
	mayCount            // or may have counted down
)

// mayBeRepeated is the shortest time after which a request is sent again.
const mayBeRepeated = int64(5 * time.Millisecond)

// ghosts returns how many leases a Join may have been granted that ended before the party learned of them: one
// for each TTL that the call took, and one more if it returned no lease. orphans says that the server may carry
// the request out again after its answer.
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

// latchOperations turns steps into operations.
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
		// A process that finds the latch full may have found parties that were never told.
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
			heard := s.Ended + 1 // a lease may be over by the time its holder is told
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

// latchState is a possible state of a latch.
type latchState struct {
	count, missing int
	parties        string // the numbers of those that joined, as runes: 3 times the number plus a partyState
	// How many of each may still happen.
	counts, resets, ghosts int
	seats                  int // that may be taken by parties that were never told
}

// party returns the index of a party in s.parties, or -1.
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

// later returns the states that may follow by one of the pending operations.
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

// step returns the state after an operation, or false if the operation is impossible.
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
		case worker.Wait: // Missing is 0 unless parties were missing
			return s, s.count == 0 && op.Missing == s.missing
		}
	}
	return s, true
}

// covers reports whether every future of t is also a future of s: pending operations need not happen.
func (s latchState) covers(t latchState) bool {
	return s.count == t.count && s.missing == t.missing && s.parties == t.parties && s.seats == t.seats &&
		s.counts >= t.counts && s.resets >= t.resets && s.ghosts >= t.ghosts
}

// include adds a state to a set in which no state covers another, unless one of them covers it.
func include(states []latchState, t latchState) (all []latchState, added bool) {
	if slices.ContainsFunc(states, func(s latchState) bool { return s.covers(t) }) {
		return states, false
	}
	return append(slices.DeleteFunc(states, t.covers), t), true
}

// latchModel returns a model whose state is the list of states in which the latch may be.
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
