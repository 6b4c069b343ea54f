package keeper

import (
	"os"
	"time"
)

// instant is a time, in nanoseconds, on a clock that advances while the machine sleeps. 0 means none.
type instant int64

const second = instant(time.Second)

// clock is the clock of a parent and its keeper. Tests have one of virtual time.
type clock interface {
	now() instant
	newAlarm() (alarm, error)
}

// alarm rings at an instant, or at once if that has passed, perhaps while the machine was asleep.
type alarm interface {
	set(at instant) // replaces the instant; 0 means never
	rings() <-chan os.Signal
	close()
}

// schedule says when and how a job has to be ended.
type schedule struct {
	onLost    Policy
	killAfter time.Duration

	deadline instant // until which the lock is certain
	overtime instant // when MaxRuntime has passed
	killAt   instant // when to send KILL
	lost     bool    // lose was called
}

// margin returns how long before the deadline KILL is sent. The kernel needs time to end the processes, and a busy machine to run the
// keeper.
func (s *schedule) margin() instant {
	return instant(min(50*time.Millisecond+s.killAfter/10, 500*time.Millisecond))
}

// continues reports whether the job continues without the lock.
func (s *schedule) continues() bool { return s.onLost == Notify || s.onLost == Ignore }

// grace returns how long a job may take to end after TERM.
func (s *schedule) grace() time.Duration {
	if s.onLost == Kill {
		return 0
	}
	return s.killAfter
}

// lossAt returns when the lock counts as lost unless the deadline moves.
func (s *schedule) lossAt() instant {
	if s.deadline == 0 || s.lost {
		return 0
	}
	switch s.onLost {
	case Kill:
		return s.deadline - s.margin()
	case Ignore:
		return s.deadline
	}
	return s.deadline - max(instant(s.killAfter), s.margin())
}

// lose is called when the keeper begins to do what OnLost says. A job that continues then has no deadline.
func (s *schedule) lose() {
	s.lost = true
	if s.continues() {
		s.deadline = 0
	}
}

// end schedules KILL: after grace, but before the deadline.
func (s *schedule) end(now instant, grace time.Duration) {
	at := now + instant(grace)
	if s.deadline != 0 {
		at = min(at, s.deadline-s.margin())
	}
	if s.killAt == 0 || at < s.killAt {
		s.killAt = max(at, 1)
	}
}

// move sets a later deadline. It does not save a job that is being ended.
func (s *schedule) move(deadline instant) {
	if s.lost {
		return
	}
	s.deadline = max(s.deadline, deadline)
}

// next returns when the keeper has to act next; 0 for never.
func (s *schedule) next() instant {
	var next instant
	for _, at := range []instant{s.lossAt(), s.overtime, s.killAt} {
		if at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}
