package keeper

import (
	"encoding/gob"
	"io"
	"os"
	"time"
)

// stdio is what a command gets from its surroundings.
type stdio struct {
	env      []string
	in       io.Reader
	out, err io.Writer
}

// change is a command that stopped or ended.
type change struct {
	stopped bool
	signal  int // that stopped or killed it, or 0
	code    int
}

// processes are the command, which leads a process group, and what it started. Production
// has process; tests have one that notes what is done to it.
type processes interface {
	id() int                // of the command
	news() <-chan os.Signal // receives when one may have stopped or ended
	reap() []change         // what happened to the command since the last call
	empty() bool            // nothing is left of them
	left() []int            // what the command left running

	release()               // let the command run
	signal(sig int)         // to the group
	notify()                // USR1, to the command alone
	terminate()             // TERM, to all
	kill() (denied []int)   // KILL, to all that may be killed; to be repeated until nothing is left
	takeTerminal(group int) // give the terminal that the command has to group
}

// server is the keeper's side.
type server struct {
	plan  plan
	max   time.Duration
	group int // the parent's

	out   *outbox[Event]
	proc  processes
	clock clock
	bell  alarm

	over     Event         // what Ended will say
	released bool          // the command runs, or did
	exited   bool          // the command did; others may be left
	denied   bool          // that was told
	retry    time.Duration // until the next KILL; 0 before the first
}

// serve keeps one job, from the first order on conn to the job's end.
func serve(conn io.ReadWriter, clock clock, with stdio) {
	keepJob(conn, clock, func(o order) (processes, error) { return startProcess(o.Path, o.Args, with) })
}

// keepJob is serve with a clock, and with what starts the command.
func keepJob(conn io.ReadWriter, clock clock, start func(order) (processes, error)) {
	dec := gob.NewDecoder(conn)
	out := newOutbox(gob.NewEncoder(conn), func(older, newer Event) bool {
		return older.Kind == Stopped && newer.Kind == Stopped // the others come but once
	})
	defer out.close()
	s := &server{out: out, clock: clock, over: Event{Kind: Ended}}
	var o order
	if dec.Decode(&o) != nil {
		return
	}
	var err error
	if s.bell, err = clock.newAlarm(); err == nil {
		s.proc, err = start(o)
	}
	if err != nil {
		s.tell(Event{Kind: failed, Err: err.Error()})
		return
	}
	defer s.bell.close()
	s.plan = plan{onLost: o.OnLost, killAfter: o.KillAfter}
	s.max, s.group = o.Max, o.Group
	s.tell(Event{Kind: ready, PIDs: []int{s.proc.id()}})

	received := make(chan order)
	go func() {
		defer close(received)
		for {
			var o order
			if dec.Decode(&o) != nil {
				return
			}
			received <- o
		}
	}()
	orders := received
	for !s.done() {
		s.bell.set(s.plan.next())
		select {
		case o, ok := <-orders:
			if !ok {
				orders = nil
				s.abandoned()
				continue
			}
			s.obey(o)
		case <-s.proc.news():
			s.collect()
		case <-s.bell.rings():
		}
		s.tick()
	}
	s.tell(s.over)
	// Until the parent knows that all has ended well, the end of the keeper would alarm it.
	for range received {
	}
}

func (s *server) tell(ev Event) { s.out.add(ev) }

func (s *server) obey(o order) {
	switch o.Op {
	case opRelease:
		s.plan.move(o.Deadline)
		if s.max > 0 {
			s.plan.overtime = s.clock.now() + instant(s.max)
		}
		// A pause on the way here may have cost the lock.
		if s.tick(); s.plan.killAt == 0 {
			s.released = true
			s.proc.release()
		}
	case opDeadline:
		s.plan.move(o.Deadline)
	case opSignal:
		s.proc.signal(o.Signal)
	case opLost:
		if !s.plan.lost {
			s.lose()
		}
	}
}

// tick does what is due.
func (s *server) tick() {
	now := s.clock.now()
	if at := s.plan.lossAt(); at != 0 && now >= at {
		s.tell(Event{Kind: Losing})
		s.lose()
	}
	if at := s.plan.overtime; at != 0 && now >= at {
		s.plan.overtime = 0
		if !s.exited && s.plan.killAt == 0 {
			s.tell(Event{Kind: Overtime})
			s.over.Cause = CauseMaxRuntime
			s.end(s.plan.killAfter)
		}
	}
	if at := s.plan.killAt; at != 0 && now >= at {
		s.kill()
	}
}

// lose does as OnLost says. A command that was not let run never is: also one that would
// run on without the lock is not to begin without it.
func (s *server) lose() {
	s.plan.lose()
	if !s.released {
		s.over.Cause = CauseNotRun
		s.end(0)
		return
	}
	switch s.plan.onLost {
	case Ignore:
	case Notify:
		s.proc.notify()
	default:
		if !s.exited && s.over.Cause == "" {
			s.over.Cause = CauseLost
		}
		grace := s.plan.killAfter
		if s.plan.onLost == Kill {
			grace = 0
		}
		s.end(grace)
	}
}

// abandoned ends the job because the parent died. Nobody renews the lock now,
// but until the deadline it is still there.
func (s *server) abandoned() {
	s.proc.takeTerminal(s.group)
	grace := s.plan.killAfter
	if s.plan.onLost == Kill {
		grace = 0
	}
	s.end(grace)
	s.tick()
}

// end sends TERM, and KILL after grace or before the deadline, whichever comes
// first.
func (s *server) end(grace time.Duration) {
	if s.plan.killAt == 0 && grace > 0 {
		s.proc.terminate()
	}
	s.plan.end(s.clock.now(), grace)
}

// kill sends KILL to whatever is there, and comes back until nothing is: a
// killed process hands its children over only as it dies.
func (s *server) kill() {
	denied := s.proc.kill()
	if len(denied) > 0 && !s.denied {
		s.denied = true
		s.tell(Event{Kind: Denied, PIDs: denied})
	}
	s.retry = min(max(2*s.retry, 2*time.Millisecond), 500*time.Millisecond)
	s.plan.killAt = s.clock.now() + instant(s.retry)
}

// collect takes note of processes that stopped or ended.
func (s *server) collect() {
	for _, c := range s.proc.reap() {
		if c.stopped {
			s.tell(Event{Kind: Stopped, Signal: c.signal})
			continue
		}
		s.exited = true
		s.over.Code, s.over.Signal = c.code, c.signal
	}
	if s.retry > 0 {
		// What died may have handed its children to us.
		s.retry, s.plan.killAt = time.Millisecond, s.clock.now()
		return
	}
	if !s.exited || s.done() || s.plan.killAt != 0 {
		return
	}
	s.tell(Event{Kind: Leftover, PIDs: s.proc.left()})
	s.end(s.plan.killAfter)
}

func (s *server) done() bool { return s.exited && s.proc.empty() }
