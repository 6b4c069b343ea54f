package campaign

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// Plan is everything that is decided about a history before it begins. It follows from seed, server, mode,
// kinds and subject.
type Plan struct {
	Seed    uint64   `json:"seed"`
	Server  string   `json:"server"`
	Mode    Mode     `json:"mode"`
	Subject string   `json:"subject"`
	Kinds   []string `json:"kinds"`

	Active         time.Duration   `json:"active"`      // for how long goroutines begin new turns
	ShortTTL       time.Duration   `json:"short_ttl"`   // the unit of the faults' durations
	LongestTTL     time.Duration   `json:"longest_ttl"` // of a lock
	CommandTimeout time.Duration   `json:"command_timeout"`
	Names          []Name          `json:"names"`
	Processes      []worker.Script `json:"processes"`
	Faults         []Fault         `json:"faults"`

	kinds []*Kind
}

// Name is a lock with its keys on the server.
type Name struct {
	Name   string `json:"name"`
	Shared bool   `json:"shared"` // has an exact key
	Key    string `json:"key"`
	Queue  string `json:"queue"`
}

// record returns the prefix of the keys that record the runs of the job with this lock.
func (n *Name) record() string { return strings.TrimSuffix(n.Queue, ":q") + ":once" }

// Fault is a fault and the time at which it begins.
type Fault struct {
	Kind string        `json:"kind"`
	At   time.Duration `json:"at"`
	Seed uint64        `json:"seed"`
	Node int           `json:"node,omitempty"` // the server that it strikes, from 1; 0: all, at once
}

// longTTL is longer than a history may take. A waiter that nobody wakes thus cannot be saved by the end of the
// lease.
const longTTL = time.Minute

// NewPlan draws a plan.
func NewPlan(seed uint64, server string, mode Mode, subject Subject, kinds []*Kind) *Plan {
	random := rand.New(rand.NewPCG(seed, 1))
	between := func(low, high time.Duration) time.Duration {
		return low + time.Duration(random.Int64N(int64(high-low)))
	}
	p := &Plan{
		Seed: seed, Server: server, Mode: mode, Subject: subject.Name(), Kinds: []string{},
		Active:         between(800*time.Millisecond, 1300*time.Millisecond),
		ShortTTL:       between(20*time.Millisecond, 400*time.Millisecond),
		CommandTimeout: between(150*time.Millisecond, 600*time.Millisecond),
		kinds:          kinds,
	}
	patient := random.IntN(100) < 40 && mode == Default
	for _, k := range kinds {
		p.Kinds = append(p.Kinds, k.Name)
		patient = patient && !k.Slow
	}
	p.LongestTTL = p.ShortTTL
	if patient {
		p.LongestTTL = longTTL
	}
	for _, name := range []string{"a", "b", "c"}[:1+random.IntN(3)] {
		n := Name{Name: name, Key: "holdfast:{" + name + "}"}
		n.Queue = subject.Queue(n.Key)
		if random.IntN(4) == 0 && hasExactKeys(subject) {
			n.share()
		}
		p.Names = append(p.Names, n)
	}
	subject.Prepare(p)
	for _, k := range kinds {
		if k.Prepare != nil {
			k.Prepare(p)
		}
	}
	finally := subject.Finally(p)
	setting := worker.Setting{
		MaxTTL:         2 * p.LongestTTL,
		Mode:           string(mode),
		LocalHandovers: []int{-1, 0, 0, 4}[random.IntN(4)],
		CommandTimeout: p.CommandTimeout,
		RetryTimeout:   p.CommandTimeout + between(0, time.Second),
	}
	for range 2 + random.IntN(3) {
		s := worker.Script{
			Setting:    setting,
			Seed:       random.Uint64(),
			Goroutines: 1 + random.IntN(4),
			Hold:       between(time.Millisecond, 10*time.Millisecond),
			Think:      between(time.Millisecond, 25*time.Millisecond),
			Patience:   between(time.Millisecond, 300*time.Millisecond),
			Impatient:  []int{0, 5, 30}[random.IntN(3)],
			Extending:  []int{0, 0, 20}[random.IntN(3)],
		}
		if !patient {
			s.Overdue = []int{0, 0, 2}[random.IntN(3)]
		}
		for _, n := range p.Names {
			s.Wants = append(s.Wants, subject.Draw(random, p, n)...)
		}
		s.Admit = mode == Strict && len(p.Processes) == 0
		s.Operator, s.Finally = s.Admit, finally
		p.Processes = append(p.Processes, s)
	}
	for _, k := range kinds {
		for range 1 + random.IntN(2) {
			f := Fault{Kind: k.Name, At: between(p.Active/20, p.Active*8/10), Seed: random.Uint64()}
			if n := subject.Nodes(); n > 1 && (random.IntN(4) > 0 || slices.Contains(processKinds, k)) {
				f.Node = 1 + random.IntN(n)
			}
			p.Faults = append(p.Faults, f)
		}
	}
	return p
}

func (n *Name) share() {
	n.Shared = true
	n.Key = "shared:" + n.Name
	n.Queue = "holdfast:{" + n.Key + "}:key:q"
}

// Within reports whether exclusion is promised in the whole history. Other programs know no Strict mode.
func (p *Plan) Within() bool {
	if p.has(func(k *Kind) bool { return k.Breaks == DataKept }) && p.has(func(k *Kind) bool { return k.Name == "stranger" }) {
		return false
	}
	for _, k := range p.kinds {
		if !k.Within(p.Mode) {
			return false
		}
	}
	return true
}

// fencesMayFall reports whether the server may lose its counter and its clock may go back, the one case in
// which fences need not rise.
func (p *Plan) fencesMayFall() bool {
	return p.has(func(k *Kind) bool { return k.ForgetsFences }) && p.has(func(k *Kind) bool { return k.Breaks == ClockRun })
}

// has reports whether any kind of fault in the history has a property.
func (p *Plan) has(property func(*Kind) bool) bool {
	for _, k := range p.kinds {
		if property(k) {
			return true
		}
	}
	return false
}

// longestLook is the longest time after which a waiter at a latch or a barrier looks by itself if it is not
// notified, also when what it waits for is lost.
const longestLook = 31 * time.Second

// patience is how long a waiter may have to wait once the faults have ended and nothing new begins. A lock
// without an owner expires; a look makes up for a lost notification, after 2 s times the rank and at most 20%
// more; a subscription is up again within 2 s; commands under way take their time. The rest is for a slow
// machine.
func (p *Plan) patience() time.Duration {
	if p.LongestTTL > time.Second {
		return 20 * time.Second // a waiter that is not woken does not look before 30 s
	}
	var extra time.Duration
	if p.has(func(k *Kind) bool { return k.Breaks == ClockRun }) {
		extra = 2 * longestJump
	}
	if p.Mode == Strict { // for its quarantines
		extra += time.Duration(len(p.Faults)) * p.Processes[0].MaxTTL
	}
	if p.Processes[0].Finally != nil && p.Processes[0].Finally[0].Parties > 0 && p.has(func(k *Kind) bool { return k.Mutes || k.Breaks != None }) {
		extra += longestLook
	}
	looks := time.Duration(len(p.Processes)+1) * 2400 * time.Millisecond
	for _, want := range p.Processes[0].Finally { // one process follows another
		extra += time.Duration(len(p.Processes)) * want.TTL
		if want.NodeTimeout > 0 { // a busy machine needs many tries to meet it
			extra += 20 * time.Second
		}
	}
	return extra + 2*p.LongestTTL + looks + 2*time.Second + 2*p.Processes[0].RetryTimeout + 15*time.Second
}
