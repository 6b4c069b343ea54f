package keeper

import (
	"sync"
	"time"
)

// guard belongs to the parent. It kills a keeper that has not ended its job in time, for example because it was stopped. The parent then
// ends the processes that the keeper leaves.
type guard struct {
	clock clock
	kill  func() // nil if the keeper is not a process, and after end
	timer *time.Timer

	mu       sync.Mutex
	schedule schedule
	at       instant // when to kill; 0 for never
	released bool    // the keeper may have run the command
	fired    bool    // the keeper was killed
}

// newGuard returns a guard without a deadline.
func newGuard(clock clock, onLost Policy, killAfter time.Duration, kill func()) *guard {
	g := &guard{clock: clock, kill: kill, schedule: schedule{onLost: onLost, killAfter: killAfter}}
	g.timer = time.AfterFunc(time.Hour, g.ring) // until set
	g.timer.Stop()
	return g
}

// release is called when the keeper is told to run the command. The lock is certain until deadline.
func (g *guard) release(deadline instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.schedule.lost {
		return
	}
	g.schedule.move(deadline)
	at, now := g.schedule.deadline-g.schedule.margin()/2, g.clock.now()
	if g.released = now < g.schedule.lossAt(); !g.released {
		at = max(at, now+g.schedule.margin()) // the keeper will not run the command, but needs time to end
	}
	g.set(at)
}

// move is called when the lock is certain until deadline. It changes nothing for a command that is not run.
func (g *guard) move(deadline instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.schedule.lost || !g.released {
		return
	}
	g.schedule.move(deadline)
	g.set(g.schedule.deadline - g.schedule.margin()/2)
}

func (g *guard) lose() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.schedule.lost {
		return
	}
	g.schedule.lose()
	at := g.clock.now() + g.schedule.margin()
	if g.schedule.onLost == Terminate {
		at += instant(g.schedule.killAfter)
	}
	if g.at == 0 || at < g.at {
		g.set(at)
	}
}

func (g *guard) set(at instant) {
	if g.kill == nil || g.schedule.continues() {
		return
	}
	g.at = at
	g.timer.Reset(time.Duration(at - g.clock.now()))
}

// ring kills the keeper if the time has come. Go's timers stand still while the machine sleeps, so after a sleep it is late; the keeper's
// own alarm is not.
func (g *guard) ring() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.at != 0 && g.clock.now() >= g.at {
		g.at, g.fired = 0, true
		g.kill()
	}
}

// end ends the guard. It returns why the guard killed the keeper, or "" if it did not.
func (g *guard) end() Cause {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at, g.kill = 0, nil
	g.timer.Stop()
	switch {
	case !g.fired:
		return ""
	case !g.released:
		return CauseNotRun
	}
	return CauseLost
}
