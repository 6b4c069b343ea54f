package keeper

import (
	"sync"
	"time"
)

// guard is the parent's part: it kills a keeper that has not ended its job in time, for example because it was stopped.
// The parent then ends what the keeper leaves.
type guard struct {
	clock clock
	alarm alarm
	kill  func()
	over  chan struct{}

	mu       sync.Mutex
	schedule schedule
	at       instant // when to kill; 0: never
	fired    bool
}

// newGuard returns a guard without a deadline. kill is nil if the keeper cannot be killed.
func newGuard(clock clock, onLost Policy, killAfter time.Duration, kill func()) (*guard, error) {
	a, err := clock.newAlarm()
	if err != nil {
		return nil, err
	}
	g := &guard{clock: clock, alarm: a, kill: kill, over: make(chan struct{}), schedule: schedule{onLost: onLost, killAfter: killAfter}}
	go g.watch()
	return g, nil
}

// move says that the lock is certain until deadline.
func (g *guard) move(deadline instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.schedule.lost {
		return
	}
	g.schedule.move(deadline)
	at := g.schedule.deadline - g.schedule.margin()/2
	if now := g.clock.now(); g.at == 0 && at <= now {
		at = now + g.schedule.margin() // The keeper does not run the command, and needs time to end.
	}
	g.set(at)
}

// lose says that the lock is lost.
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
	g.alarm.set(at)
}

// end ends the guard, and reports whether it has killed the keeper.
func (g *guard) end() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = 0
	select {
	case <-g.over:
	default:
		close(g.over)
		g.alarm.close()
	}
	return g.fired
}

func (g *guard) watch() {
	for {
		select {
		case <-g.over:
			return
		case <-g.alarm.rings():
		}
		g.mu.Lock()
		if g.at != 0 && g.clock.now() >= g.at {
			g.at, g.fired = 0, true
			g.kill()
		}
		g.mu.Unlock()
	}
}
