package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// kind is a kind of fault.
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

// Those that no lock on one server survives.
const (
	wipe         kind = "restart without data"
	deletion     kind = "deleted lock"
	clockForward kind = "server clock forward"
	clockBack    kind = "server clock back"
)

var (
	rough = []kind{slowAll, slowOne, cutOne, cutAll, lostRequest, lostReply, stalled, swallowUp, swallowDown, refused,
		partition, pause, serverPause, restart, crash, closing, scriptFlush}
	// A counter of fences that is lost while the clock goes back is beyond every
	// promise, so the two families do not meet.
	losses = []kind{wipe, deletion}
	clocks = []kind{clockForward, clockBack}
)

// fault is something that befalls a world.
type fault struct {
	number  int
	at      time.Duration
	kind    kind
	process int
	lasts   time.Duration
}

func (f fault) String() string {
	return fmt.Sprintf("%s: %s, process %d, %s", f.at, f.kind, f.process, f.lasts)
}

// newFaults draws what befalls a world, and when.
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

// befall lets faults happen, each at its time, until the world ends.
func (w *World) befall() {
	for _, f := range w.plan.faults {
		if !w.sleepUntil(f.at) {
			return
		}
		if w.strike(f) {
			w.note(-1, -1, "fault: %s, process %d, %s", f.kind, f.process, f.lasts)
			w.result.Faults[string(f.kind)]++
		}
	}
}

// strike lets one fault happen; false if there was nothing for it to befall.
func (w *World) strike(f fault) bool {
	n, now := w.network, time.Now()
	end := now.Add(f.lasts)
	r := random(w.plan.seed, "strike", f.number)
	victim := w.incarnation(f.process)
	if victim == nil {
		switch f.kind {
		case slowAll, serverPause, restart, scriptFlush, wipe, deletion, clockForward, clockBack:
		default:
			return false
		}
	}
	// one changes one of the victim's connections, of those that are in use.
	one := func(change func(l *link)) bool {
		links := slices.DeleteFunc(n.linksOf(victim.host), func(l *link) bool { return !l.inUse() })
		if len(links) == 0 {
			return false
		}
		change(links[r.IntN(len(links))])
		return true
	}
	cut := func(links []*link) {
		for _, l := range links {
			l.cut()
		}
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
	case restart, wipe:
		n.set(func() { n.downUntil = end })
		cut(n.linksOf(-1))
		w.server.do("SCRIPT", "FLUSH")
		if f.kind == wipe {
			w.server.do("FLUSHALL")
		}
	case crash:
		w.crash(victim, f.lasts)
	case closing:
		w.close(victim, f.lasts)
	case scriptFlush:
		w.server.do("SCRIPT", "FLUSH")
	case deletion:
		w.server.do("DEL", w.key(r.IntN(len(w.plan.names))))
	case clockForward:
		w.server.jump(f.lasts)
	case clockBack:
		w.server.jump(-f.lasts)
	}
	return true
}
