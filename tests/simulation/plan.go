package simulation

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/options"
)

// random returns a random source for everything that has a name. What one part of a world draws depends neither
// on what others draw nor on the order in which goroutines run.
func random(seed uint64, name ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, name...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// between draws a duration whose logarithm is uniformly distributed.
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return time.Duration(float64(low) * math.Pow(float64(high)/float64(low), r.Float64()))
}

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// Temper says which faults strike a world.
type Temper string

// The tempers.
const (
	// Calm: only delays, and clocks at different rates.
	Calm Temper = "calm"
	// Rough: every fault that locks must survive.
	Rough Temper = "rough"
	// Wild: also faults that no lock on one server survives, such as lost data and clocks that jump. Overlaps
	// are counted there; they are not violations.
	Wild Temper = "wild"
)

// plan is a world before it begins. All of it is drawn from the seed.
type plan struct {
	seed      uint64
	temper    Temper
	length    time.Duration
	delay     time.Duration // mean, one way
	rate      float64       // of the server's clock
	deletes   int           // how many of the server's starts are with DELIFEQ: none, the first, or all
	nodes     []serverClock // of a quorum; nil for one server
	maxTTL    time.Duration // of a quorum
	names     []name
	several   []int // the names, if any, that are also acquired as one lock
	processes []process
	faults    []fault
}

type name struct {
	name string
	key  string // exact, or ""

	// The demand for a name comes in bursts: a burst every so often, spread over some time, of some turns.
	every, spread time.Duration
	turns         int
	hold          [2]time.Duration // shortest and longest
	foreign       bool             // other programs hold it, too: those that know only SET, or Redisson's
	form          form
	parties       int // of a latch or a barrier
}

type process struct {
	config  holdfast.Config
	workers []worker
}

type worker struct {
	wants []want // by name
}

// want is how a goroutine acquires a lock.
type want struct {
	ttl         time.Duration
	renew       bool
	maxHold     time.Duration
	maxRenewals int // negative: no bound
	poll        time.Duration
	tries       int
	share       int           // see form.draw
	nodeTimeout time.Duration // of a quorum
	patient     bool          // only faults exceed it
}

// term returns how long the server grants the lock for.
func (w want) term() time.Duration {
	if w.maxHold > 0 {
		return min(w.ttl, w.maxHold)
	}
	return w.ttl
}

// option returns the options of any lock, as one.
func (w want) option() holdfast.Option {
	opts := []holdfast.Option{holdfast.TTL(w.ttl)}
	if !w.renew {
		opts = append(opts, holdfast.NoRenew())
	}
	if w.maxHold > 0 {
		opts = append(opts, holdfast.MaxHold(w.maxHold))
	}
	if w.maxRenewals >= 0 {
		opts = append(opts, holdfast.MaxRenewals(w.maxRenewals))
	}
	return holdfast.Options(opts...)
}

// queued returns the options of a lock that is waited for, in the queue or by polling.
func (w want) queued() []holdfast.WaitOption {
	opts := []holdfast.WaitOption{w.option()}
	if w.poll > 0 {
		opts = append(opts, holdfast.Poll(w.poll))
	}
	return opts
}

// waitOptions returns the options of a kind of lock that callers wait for; a poller gets a number of tries.
func waitOptions[Kind any](w want) []Kind {
	all := options.For[Kind](w.queued())
	if w.poll > 0 && w.tries > 0 {
		all = append(all, any(holdfast.Wait(time.Duration(w.tries-1)*w.poll)).(Kind))
	}
	return all
}

// newPlan draws a world.
func newPlan(o spec) plan {
	seed := o.seed
	r := random(seed, "plan")
	p := plan{
		seed:   seed,
		temper: [...]Temper{Calm, Rough, Rough, Rough, Wild}[r.IntN(5)],
		length: between(r, 20*time.Minute, 3*time.Hour).Round(time.Second),
		delay:  between(r, 50*time.Microsecond, 20*time.Millisecond),
		// Assumption 1 allows 1%.
		rate: 1 + 0.018*(r.Float64()-0.5),
	}
	if o.temper != "" {
		p.temper = o.temper
	}
	if o.length > 0 {
		p.length = min(p.length, o.length)
	}
	for i := range 1 + r.IntN(3) {
		p.names = append(p.names, newName(r, i))
	}
	for range 3 + r.IntN(4) {
		p.processes = append(p.processes, newProcess(r, p.names))
	}
	p.deletes = [...]int{0, 1, math.MaxInt}[random(seed, "native").IntN(3)]
	p.drawForms(o)
	p.drawSeveral(o)
	p.drawQuorum(o)
	if p.temper == Calm {
		// Nothing may fail in a calm world: no command may take longer than its timeout.
		p.delay = min(p.delay, 2*time.Millisecond)
		for i := range p.processes {
			c := &p.processes[i].config
			c.CommandTimeout = max(c.CommandTimeout, 2*time.Second)
		}
	} else {
		p.faults = newFaults(random(seed, "faults"), p)
		p.aim(p.faults)
	}
	p.lengthenTerms()
	return p
}

// lengthenTerms makes every term of an election longer than the slowest round trip. A candidate would learn of
// a shorter term only after its end. Acquire fails in that case, but a candidate campaigns on.
func (p plan) lengthenTerms() {
	least := time.Duration(2*slowestLink*maxDelay*1.02*float64(p.delay)) + 10*time.Millisecond
	for i, n := range p.names {
		if n.form != elected {
			continue
		}
		for _, process := range p.processes {
			for _, worker := range process.workers {
				w := &worker.wants[i]
				w.ttl = max(w.ttl, least)
				if w.maxHold > 0 {
					w.maxHold = max(w.maxHold, least)
				}
			}
		}
	}
}

func newName(r *rand.Rand, i int) name {
	n := name{name: string(rune('a' + i))}
	switch {
	case i == 0: // a name that is wanted most of the time
		n.hold = [2]time.Duration{20 * time.Millisecond, between(r, 5*time.Second, 30*time.Second)}
		n.every, n.spread, n.turns = between(r, 30*time.Second, 90*time.Second), between(r, time.Second, 30*time.Second), 1+r.IntN(2)
	case chance(r, 50): // short jobs, many at a time
		n.hold = [2]time.Duration{time.Millisecond, 300 * time.Millisecond}
		n.every, n.spread, n.turns = between(r, time.Minute, 5*time.Minute), between(r, 10*time.Millisecond, 5*time.Second), 2+r.IntN(3)
	default: // long ones
		n.hold = [2]time.Duration{5 * time.Second, 12 * time.Minute}
		n.every, n.spread, n.turns = between(r, 5*time.Minute, 20*time.Minute), between(r, time.Second, 2*time.Minute), 1
	}
	if chance(r, 25) {
		n.key = "shared:" + n.name
		n.foreign = chance(r, 60)
	}
	return n
}

func newProcess(r *rand.Rand, names []name) process {
	p := process{config: holdfast.Config{
		CommandTimeout:    between(r, 300*time.Millisecond, 3*time.Second),
		RetryTimeout:      between(r, time.Second, 6*time.Second),
		MaxLocalHandovers: []int{0, 0, 0, -1, 3}[r.IntN(5)],
	}}
	// This is not drawn: other worlds stay as their seeds made them before there was a choice.
	p.config.ViaClient = p.config.CommandTimeout%5 == 2
	var alike []want
	for _, n := range names {
		alike = append(alike, newWant(r, n))
	}
	for range 2 + r.IntN(3) {
		w := worker{wants: slices.Clone(alike)}
		for i, n := range names {
			if chance(r, 25) {
				w.wants[i] = newWant(r, n)
			}
		}
		p.workers = append(p.workers, w)
	}
	return p
}

func newWant(r *rand.Rand, n name) want {
	w := want{renew: true, maxRenewals: -1}
	// Short leases of long holds cost a renewal in every third of the lease, so few wants have them.
	short := n.hold[1] / 6
	if chance(r, 15) {
		short = n.hold[1] / 30
	}
	w.ttl = between(r, max(50*time.Millisecond, short), min(max(5*time.Second, 2*n.hold[1]), 10*time.Minute))
	switch r.IntN(10) {
	case 0, 1:
		w.renew = false
	case 2:
		w.maxHold = between(r, max(n.hold[0], 10*time.Millisecond), 2*n.hold[1])
	case 3:
		w.maxRenewals = 1 + r.IntN(3)
	}
	if chance(r, 8) {
		w.poll, w.tries = between(r, max(10*time.Millisecond, n.hold[1]/200), 4*time.Second), r.IntN(20)
	}
	return w
}

// longest returns the longest time for which a lock can be left without a holder that acts.
func (p plan) longest() time.Duration {
	longest := foreignTTL
	for _, process := range p.processes {
		for _, worker := range process.workers {
			for _, w := range worker.wants {
				longest = max(longest, extension*w.ttl)
			}
		}
	}
	return longest
}

// extension is the largest factor of a TTL in a call of Extend.
const extension = 2

func (p plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s, %s, delays of %s, the server's clock at %.4f\n", p.seed, p.temper, p.length, p.delay.Round(time.Microsecond), p.rate)
	for _, n := range p.names {
		fmt.Fprintf(&b, "  lock %+v\n", n)
	}
	switch p.deletes {
	case 0:
	case 1:
		b.WriteString("  DELIFEQ until the server is restarted\n")
	default:
		b.WriteString("  DELIFEQ\n")
	}
	if p.several != nil {
		fmt.Fprintf(&b, "  as one lock: %v\n", p.several)
	}
	if p.nodes != nil {
		fmt.Fprintf(&b, "  a quorum of %d, with a MaxTTL of %s: %v\n", len(p.nodes), p.maxTTL, p.nodes)
	}
	for i, process := range p.processes {
		fmt.Fprintf(&b, "  process %d: CommandTimeout %s, RetryTimeout %s, LocalHandovers %d\n",
			i, process.config.CommandTimeout, process.config.RetryTimeout, process.config.MaxLocalHandovers)
		for j, w := range process.workers {
			fmt.Fprintf(&b, "    goroutine %d: %+v\n", j, w.wants)
		}
	}
	for _, f := range p.faults {
		fmt.Fprintf(&b, "  %v\n", f)
	}
	return b.String()
}
