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
var Subjects = []Subject{Mutex{}, Redisson{}, ReadWrite{}, Permits{}, Owned{}, Carried{}, Multi{}, Once{}, Election{}, Quorum{}, Latch{}, Barrier{}}

// hasExactKeys reports whether the lock can be shared with programs that know only SET.
func hasExactKeys(s Subject) bool { return s == Mutex{} || s == Carried{} }

// alone is common to locks that are on one server and have a queue. Their fences are different, and tell turns.
type alone struct{}

func (alone) ShareFence(_, _ history.Event) bool { return false }

func (alone) FencesTellTurns() bool { return true }

func (alone) HasQueue() bool { return true }

func (alone) Nodes() int { return 1 }

func (alone) Prepare(*Plan) {}

func (alone) Finally(*Plan) []worker.Want { return nil }

func (alone) Judge(*Verdict, *Record) {}

func (alone) Stays() bool { return false }

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
