package keeper

import "time"

// instant is a time on a clock that goes on while the machine sleeps, in
// nanoseconds; 0 means none.
type instant int64

const second = instant(time.Second)

// plan knows when which end comes to a job.
type plan struct {
	onLost    Policy
	killAfter time.Duration

	deadline instant // until which the lock is certain
	overtime instant // when MaxRuntime is over
	killAt   instant // when KILL follows the TERM that was sent
	lost     bool    // OnLost was done
}

// margin is how long before the deadline KILL is sent: time for the kernel to
// end the processes, and for a busy machine to let the keeper run.
func (p *plan) margin() instant {
	return instant(min(50*time.Millisecond+p.killAfter/10, 500*time.Millisecond))
}

// lossAt is when the lock counts as lost unless the deadline moves.
func (p *plan) lossAt() instant {
	if p.deadline == 0 || p.lost {
		return 0
	}
	switch p.onLost {
	case Kill:
		return p.deadline - p.margin()
	case Ignore:
		return p.deadline
	}
	return p.deadline - max(instant(p.killAfter), p.margin())
}

// lose notes that OnLost is being done. A job that is to run on has no deadline
// any more.
func (p *plan) lose() {
	p.lost = true
	if p.onLost == Notify || p.onLost == Ignore {
		p.deadline = 0
	}
}

// end plans the KILL: after grace, but before the deadline.
func (p *plan) end(now instant, grace time.Duration) {
	at := now + instant(grace)
	if p.deadline != 0 {
		at = min(at, p.deadline-p.margin())
	}
	if p.killAt == 0 || at < p.killAt {
		p.killAt = max(at, 1)
	}
}

// move notes a later deadline. It comes too late for a job that is being ended.
func (p *plan) move(deadline instant) {
	if p.lost {
		return
	}
	p.deadline = max(p.deadline, deadline)
}

// next is the next time at which there is something to do, or 0.
func (p *plan) next() instant {
	var next instant
	for _, at := range []instant{p.lossAt(), p.overtime, p.killAt} {
		if at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}
