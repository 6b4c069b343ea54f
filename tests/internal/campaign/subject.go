package campaign

import (
	"math/rand/v2"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// Subject is a kind of lock that campaigns can test: how it is requested, and who may hold it at the same time.
type Subject interface {
	Name() string
	// Draw returns ways in which one process requests the lock with that name.
	Draw(random *rand.Rand, p *Plan, n Name) []worker.Want
	// Overlaps returns holds that must not have existed at the same time.
	Overlaps(events []history.Event) []history.Violation
	// ShareFence reports whether these two may have the same fence.
	ShareFence(a, b history.Event) bool
	// FencesTellTurns reports whether a holder that asked later has the higher fence. It does not if several
	// waiters are served at once, in an order that only the server knows, or if a goroutine may get a grant
	// that another goroutine of its process requested long before.
	FencesTellTurns() bool
	// HasQueue reports whether waiters are in the server's queue.
	HasQueue() bool
	// Nodes returns how many servers a lock is on.
	Nodes() int
	// Prepare changes a history's plan, once its locks are drawn, so that it suits this kind.
	Prepare(p *Plan)
	// Finally returns what each process must be granted after the faults.
	Finally(p *Plan) []worker.Want
	// Judge looks for violations of what only this kind of lock promises.
	Judge(v *Verdict, r *Record)
	// Stays reports whether the lock's key stays after the last lease.
	Stays() bool
	// Queue returns the key of the queue of the lock with that key.
	Queue(key string) string
	// Model returns the lock as a sequential object, whose operations are Taken and Given.
	Model() porcupine.Model
}

// Taken and Given are the operations of a lock's model: Hold tells holds apart.
type (
	Taken struct {
		Hold  int
		Share int    // 0: all of the lock
		Fence uint64 // 0 for a stranger's hold, which has none
	}
	Given struct{ Hold, Share int }
)

// Subjects are all kinds of locks.
var Subjects = []Subject{Mutex{}, Redisson{}, ReadWrite{}, Permits{}, Owned{}, Carried{}, Multi{}, Nested{}, Once{}, Election{}, Quorum{}, Latch{}, Barrier{}}

// hasExactKeys reports whether the lock can be shared with programs that know only SET.
func hasExactKeys(s Subject) bool { return s == Mutex{} || s == Carried{} }

// alone is common to locks that are on one server and have a queue. Their fences are different, and tell turns.
type alone struct{}

func (alone) ShareFence(_, _ history.Event) bool { return false }
func (alone) FencesTellTurns() bool              { return true }
func (alone) HasQueue() bool                     { return true }
func (alone) Nodes() int                         { return 1 }
func (alone) Prepare(*Plan)                      {}
func (alone) Finally(*Plan) []worker.Want        { return nil }
func (alone) Judge(*Verdict, *Record)            {}
func (alone) Stays() bool                        { return false }

// Mutex is the exclusive lock.
type Mutex struct{ alone }

func (Mutex) Name() string { return "mutex" }

// Draw returns one or two ways, so that goroutines of a process may or may not be able to pass the lock on to
// each other.
func (Mutex) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	return drawWants(random, p, n, 2, func(w *worker.Want) {
		if n.Shared {
			w.Key = n.Key
		}
		w.Again = random.IntN(3) == 0
	})
}

// drawWants draws some ways to want a lock, each of which adapt changes to suit the kind of lock.
func drawWants(random *rand.Rand, p *Plan, n Name, most int, adapt func(*worker.Want)) (wants []worker.Want) {
	for range 1 + random.IntN(most) {
		w := drawWant(random, p, n)
		adapt(&w)
		wants = append(wants, w)
	}
	return wants
}

// ofEach returns a want of each of a plan's locks, which adapt changes to suit the kind of lock.
func ofEach(p *Plan, adapt func(w *worker.Want, n Name)) (wants []worker.Want) {
	for _, n := range p.Names {
		w := worker.Want{Name: n.Name, TTL: p.LongestTTL}
		adapt(&w, n)
		wants = append(wants, w)
	}
	return wants
}

// drawWant draws for how long a lock is wanted, and how the process waits for it.
func drawWant(random *rand.Rand, p *Plan, n Name) worker.Want {
	w := worker.Want{Name: n.Name, TTL: p.LongestTTL, Weight: 1 + random.IntN(4)}
	if p.LongestTTL == p.ShortTTL && random.IntN(3) == 0 {
		w.TTL = p.ShortTTL/2 + time.Duration(random.Int64N(int64(p.ShortTTL/2)))
	}
	switch random.IntN(10) {
	case 0, 1:
		w.Fixed = true
	case 2:
		w.MaxHold = w.TTL + time.Duration(random.Int64N(int64(w.TTL)))
	case 3:
		w.Poll = time.Millisecond + time.Duration(random.Int64N(int64(20*time.Millisecond)))
	case 4, 5:
		w.Try = true
	}
	return w
}

func (Mutex) Overlaps(events []history.Event) []history.Violation {
	return ofRule(history.Check(events), history.Exclusion)
}

func (Mutex) Queue(key string) string { return key + ":q" }

// mutexState is a free mutex if holder is 0.
type mutexState struct {
	holder int
	fence  uint64
}

func (Mutex) Model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return mutexState{} },
		Step: func(state, input, _ any) (bool, any) {
			s := state.(mutexState)
			switch op := input.(type) {
			case Taken:
				legal := s.holder == 0 && (op.Fence == 0 || op.Fence > s.fence)
				return legal, mutexState{op.Hold, max(op.Fence, s.fence)}
			case Given:
				return s.holder == op.Hold, mutexState{0, s.fence}
			}
			return false, s
		},
	}
}

func ofRule(violations []history.Violation, rule history.Rule) []history.Violation {
	var some []history.Violation
	for _, v := range violations {
		if v.Rule == rule {
			some = append(some, v)
		}
	}
	return some
}

// Redisson is the mutex in Redisson's form. Programs that know only SET do not share it. Other tests have
// Redisson's own clients.
type Redisson struct{ Mutex }

func (Redisson) Name() string { return "redisson" }

// Prepare gives each lock an exact key.
func (Redisson) Prepare(p *Plan) {
	for i := range p.Names {
		n := &p.Names[i]
		n.share()
		n.Queue = Redisson{}.Queue(n.Key)
	}
}

func (Redisson) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	wants := Mutex{}.Draw(random, p, n)
	for i := range wants {
		wants[i].Redisson = true
	}
	return wants
}

func (Redisson) Queue(key string) string { return "holdfast:{" + key + "}:key:redisson" }

// Carried is the mutex, half of whose leases are detached and adopted by other processes.
type Carried struct{ Mutex }

func (Carried) Name() string { return "carried" }

func (Carried) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	wants := Mutex{}.Draw(random, p, n)
	for i := range wants {
		wants[i].Share = worker.Carried
	}
	return wants
}

// Multi is several mutexes that are held as one. Each is judged as a mutex, together with holders that want it
// alone. If one lock were kept when the others are not granted, or if callers waited for each other, some
// waiter would wait forever.
type Multi struct{ Mutex }

func (Multi) Name() string { return "multi" }

// Prepare ensures that there is more than one lock.
func (Multi) Prepare(p *Plan) {
	if len(p.Names) == 1 {
		p.Names = append(p.Names, Name{Name: "b", Key: "holdfast:{b}", Queue: "holdfast:{b}:q"})
	}
}

// Draw returns ways to hold the lock together with others, in any order, and sometimes a way to hold it alone.
func (Multi) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	var wants []worker.Want
	for range 1 + random.IntN(2) {
		wants = append(wants, together(drawWant(random, p, n), random, p.Names))
	}
	if random.IntN(2) == 0 {
		w := drawWant(random, p, n)
		w.Weight = 1
		wants = append(wants, w)
	}
	return wants
}

// together turns a want of one lock into one of that lock and others.
func together(w worker.Want, random *rand.Rand, names []Name) worker.Want {
	w.Share = worker.Together
	for _, i := range random.Perm(len(names)) {
		if other := names[i].Name; other != w.Name {
			w.With = append(w.With, other)
		}
	}
	w.With = w.With[:1+random.IntN(len(w.With))]
	w.Again = random.IntN(3) == 0
	return w
}

// Finally returns a want of all locks at once.
func (Multi) Finally(p *Plan) []worker.Want {
	w := worker.Want{Name: p.Names[0].Name, Share: worker.Together, TTL: p.LongestTTL}
	for _, n := range p.Names[1:] {
		w.With = append(w.With, n.Name)
	}
	return []worker.Want{w}
}

// Election has terms in place of grants. A term begins when the leader's function is called. It ends when that
// function returns or when the term's deadline passes. There is one leader at a time, the fences of terms rise,
// and after the faults each process leads once more.
type Election struct{ Mutex }

func (Election) Name() string { return "election" }

func (Election) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	return drawWants(random, p, n, 2, func(w *worker.Want) { w.Share, w.Try = worker.Leading, false })
}

func (Election) Finally(p *Plan) []worker.Want {
	return ofEach(p, func(w *worker.Want, _ Name) { w.Share = worker.Leading })
}

// Quorum is the lock over several independent servers. A fault strikes one of them, or sometimes all; two
// faults may strike two. Fences rise from grant to grant. A majority that restarted must be admitted again: the
// first process does that once the faults are over and no earlier lease is believed in. Then each process is
// granted each lock.
type Quorum struct{ Mutex }

// nodes is the number of nodes of a quorum.
const nodes = 3

func (Quorum) Name() string   { return "quorum" }
func (Quorum) HasQueue() bool { return false }
func (Quorum) Nodes() int     { return nodes }

// Prepare gives nodes time to answer, up to a quarter of the TTL, and to return from their quarantine before
// the history ends. Connections are not given up soon: on a busy machine, processes that keep opening new ones
// to three servers get nothing else done.
func (Quorum) Prepare(p *Plan) {
	p.CommandTimeout += 1500 * time.Millisecond
	p.ShortTTL += 600 * time.Millisecond
	p.LongestTTL = p.ShortTTL
	p.Active *= 3
}

func (Quorum) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	w := drawWant(random, p, n)
	w.Share, w.Poll = worker.Agreed, 0
	if random.IntN(4) > 0 { // otherwise it is the default
		w.NodeTimeout = w.TTL / 4
	}
	if random.IntN(3) == 0 { // for so long that it is still held when most nodes lose it
		w.Hold = w.TTL / 2
	}
	return []worker.Want{w}
}

func (Quorum) Finally(p *Plan) []worker.Want {
	return ofEach(p, func(w *worker.Want, _ Name) {
		w.Share, w.TTL, w.NodeTimeout = worker.Agreed, 2*p.LongestTTL, p.LongestTTL/2
	})
}
