package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

type kind string

// The kinds that locks survive.
const (
	slowAll     kind = "slow network"
	slowOne     kind = "slow process" // its network
	cutOne      kind = "cut connection"
	cutAll      kind = "cut connections"
	lostRequest kind = "lost request" // and the connection with it
	lostReply   kind = "lost reply"
	stalled     kind = "stalled connection"
	swallowUp   kind = "half-dead, requests"
	swallowDown kind = "half-dead, replies"
	refused     kind = "refused dials"
	partition   kind = "partition"
	pause       kind = "paused process"
	serverPause kind = "paused server"
	restart     kind = "restart with data"
	crash       kind = "crash"
	closing     kind = "close"
	scriptFlush kind = "script flush"
)

// Kinds that no lock on one server survives.
const (
	wipe         kind = "restart without data" // a minority of a quorum's nodes may, also by FLUSHALL:
	emptying     kind = "data flushed"
	deletion     kind = "deleted lock"
	clockForward kind = "server clock forward"
	clockBack    kind = "server clock back"
)

var (
	rough = []kind{slowAll, slowOne, cutOne, cutAll, lostRequest, lostReply, stalled, swallowUp, swallowDown, refused,
		partition, pause, serverPause, restart, crash, closing, scriptFlush}
	// If the fence counter is lost and the clock goes back, nothing is promised. So the two families are not
	// combined.
	losses = []kind{wipe, deletion}
	clocks = []kind{clockForward, clockBack}
)

type fault struct {
	number  int
	at      time.Duration
	kind    kind
	process int
	lasts   time.Duration
	nodes   []int // that it strikes
}

func (f fault) String() string {
	return fmt.Sprintf("%s: %s, process %d, %s, servers %v", f.at, f.kind, f.process, f.lasts, f.nodes)
}

// newFaults draws the faults of a world, and their times.
func newFaults(r *rand.Rand, p plan) []fault {
	every := between(r, 15*time.Second, 10*time.Minute)
	beyond := losses
	if chance(r, 50) {
		beyond = clocks
	}
	var faults []fault
	at := time.Duration(0)
	for {
		at += time.Duration(float64(every) * r.ExpFloat64())
		if at >= p.length {
			return faults
		}
		f := fault{number: len(faults), at: at, kind: rough[r.IntN(len(rough))], process: r.IntN(len(p.processes))}
		if p.temper == Wild && chance(r, 15) {
			f.kind = beyond[r.IntN(len(beyond))]
		}
		f.lasts = between(r, 50*time.Millisecond, 2*time.Minute)
		switch f.kind {
		case serverPause, restart, wipe:
			f.lasts = between(r, 10*time.Millisecond, 40*time.Second)
		case clockForward, clockBack:
			f.lasts = between(r, time.Millisecond, time.Minute)
		}
		faults = append(faults, f)
	}
}

// befall makes the faults happen, each at its time, until the world ends.
func (w *World) befall() {
	for _, f := range w.plan.faults {
		if !w.sleepUntil(f.at) {
			return
		}
		r := random(w.plan.seed, "strike", f.number)
		struck := slices.DeleteFunc(slices.Clone(f.nodes), func(i int) bool { return !w.strike(f, i, r) })
		if len(struck) > 0 {
			w.note(-1, -1, "fault: %s, process %d, %s, servers %v", f.kind, f.process, f.lasts, struck)
			w.result.Faults[string(f.kind)]++
		}
	}
}

// strike makes one fault strike a server, or the connections to it. It returns false if there was nothing to
// strike.
func (w *World) strike(f fault, number int, r *rand.Rand) bool {
	node := w.nodes[number]
	n, server, now := node.network, node.server, time.Now()
	end := now.Add(f.lasts)
	victim := w.incarnation(f.process)
	if victim == nil {
		switch f.kind {
		case slowAll, serverPause, restart, scriptFlush, wipe, emptying, deletion, clockForward, clockBack:
		default:
			return false
		}
	}
	// one changes one of the victim's connections that are in use.
	t := trouble{node: number, host: -1, until: end.Add(aftermath)}
	if victim != nil {
		t.host = victim.host
	}
	one := func(change func(l *link)) bool {
		links := slices.DeleteFunc(n.linksOf(victim.host), func(l *link) bool { return !l.inUse() })
		if len(links) == 0 {
			return false
		}
		t.link = links[r.IntN(len(links))]
		change(t.link)
		w.ail(t)
		return true
	}
	cut := func(links []*link) {
		for _, l := range links {
			l.cut()
		}
	}
	switch f.kind {
	case cutOne, lostRequest, lostReply, stalled, swallowUp, swallowDown: // see one
	case slowAll, serverPause, restart, wipe:
		t.host = -1
		fallthrough
	default:
		w.ail(t)
	}
	switch f.kind {
	case slowAll:
		n.set(func() { n.slow = slowness{3 + 100*r.Float64(), end} })
	case slowOne:
		n.set(func() { n.hostOf(victim.host).slow = slowness{3 + 300*r.Float64(), end} })
	case cutOne:
		return one(func(l *link) { l.cut() })
	case cutAll:
		cut(n.linksOf(victim.host))
	case lostRequest:
		return one(func(l *link) { n.set(func() { l.trap = loseRequest }) })
	case lostReply:
		return one(func(l *link) { n.set(func() { l.trap = loseReply }) })
	case stalled:
		return one(func(l *link) { n.set(func() { l.stalled = end }) })
	case swallowUp:
		return one(func(l *link) { l.up.lose() })
	case swallowDown:
		return one(func(l *link) { l.down.lose() })
	case refused:
		n.set(func() { n.hostOf(victim.host).refused = end })
		cut(n.linksOf(victim.host))
	case partition:
		n.set(func() { n.hostOf(victim.host).cutOff = end })
	case pause:
		n.set(func() { n.hostOf(victim.host).paused = end })
	case serverPause:
		n.set(func() { n.paused = end })
	case emptying:
		w.armed.Add(1) // see spring
	case restart, wipe:
		if !w.mayRestart(number) {
			return false
		}
		n.set(func() { n.downUntil = end })
		cut(n.linksOf(-1))
		server.restart()
		if f.kind == wipe {
			server.do("FLUSHALL")
		}
	case crash:
		w.crash(victim, f.lasts)
	case closing:
		w.close(victim, f.lasts)
	case scriptFlush:
		server.do("SCRIPT", "FLUSH")
	case deletion:
		server.do("DEL", w.key(r.IntN(len(w.plan.names))))
	case clockForward:
		server.jump(f.lasts)
	case clockBack:
		server.jump(-f.lasts)
	}
	return true
}
