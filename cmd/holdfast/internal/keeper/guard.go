package keeper

import (
	"sync"
	"time"
)

// guard is the parent's: it kills a keeper that has not ended its job when the lock may soon be
// another's, because it was stopped, say. What a dead keeper leaves, the parent ends.
type guard struct {
	clock clock
	bell  alarm
	kill  func()
	over  chan struct{}

	mu    sync.Mutex
	plan  plan
	at    instant // when to kill; 0: never
	fired bool
}

// newGuard returns one that has no deadline yet. Where kill is nil, a keeper cannot be killed.
func newGuard(clock clock, onLost Policy, killAfter time.Duration, kill func()) (*guard, error) {
	bell, err := clock.newAlarm()
	if err != nil {
		return nil, err
	}
	g := &guard{clock: clock, bell: bell, kill: kill, over: make(chan struct{}), plan: plan{onLost: onLost, killAfter: killAfter}}
	go g.watch()
	return g, nil
}

// move says that the lock is certain until deadline.
func (g *guard) move(deadline instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.plan.lost {
		return
	}
	g.plan.move(deadline)
	at := g.plan.deadline - g.plan.margin()/2
	if now := g.clock.now(); g.at == 0 && at <= now {
		at = now + g.plan.margin() // The keeper does not let the command run, and needs time to end.
	}
	g.set(at)
}

// lose says that the lock is lost.
func (g *guard) lose() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.plan.lost {
		return
	}
	g.plan.lose()
	at := g.clock.now() + g.plan.margin()
	if g.plan.onLost == Terminate {
		at += instant(g.plan.killAfter)
	}
	if g.at == 0 || at < g.at {
		g.set(at)
	}
}

func (g *guard) set(at instant) {
	if g.kill == nil || g.plan.onLost == Notify || g.plan.onLost == Ignore {
		return // The job runs on.
	}
	g.at = at
	g.bell.set(at)
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
		g.bell.close()
	}
	return g.fired
}

func (g *guard) watch() {
	for {
		select {
		case <-g.over:
			return
		case <-g.bell.rings():
		}
		g.mu.Lock()
		if g.at != 0 && g.clock.now() >= g.at {
			g.at, g.fired = 0, true
			g.kill()
		}
		g.mu.Unlock()
	}
}
