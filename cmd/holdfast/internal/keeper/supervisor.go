package keeper

import (
	"encoding/json"
	"io"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/spool"
)

// change is a change of the command's state: it stopped or ended.
type change struct {
	stopped bool
	signal  int // that stopped or killed it, or 0
	code    int
}

// processes are the command, which leads a process group, and the processes that it has started. Tests have their own implementation.
type processes interface {
	commandPID() int
	changed() <-chan os.Signal // receives when a process may have stopped or ended
	reap() []change            // returns the command's changes since the last call
	gone() bool                // reports whether no process remains
	remaining() []int          // returns the processes that remain after the command

	release()               // runs the command
	signal(sig int)         // sends a signal to the group
	notify()                // sends USR1 to the command alone
	terminate()             // sends TERM to all
	kill() (denied []int)   // sends KILL to all that may be killed; called again until no process remains
	takeTerminal(group int) // gives the terminal to group if the command has it
}

// supervisor belongs to the keeper. It runs one job.
type supervisor struct {
	schedule schedule
	max      time.Duration
	group    int // the parent's

	out   *spool.Writer // to the parent, which may be stopped
	proc  processes
	clock clock
	alarm alarm

	result   Event         // the event Ended
	released bool          // the command was run
	exited   bool          // the command has ended; other processes may remain
	denied   bool          // the event Denied was sent
	retry    time.Duration // until the next KILL; 0 before the first
}

// supervise runs a job, from the first order on conn to the job's end. start starts the command.
func supervise(conn io.ReadWriter, clock clock, start func(order) (processes, error)) {
	dec := json.NewDecoder(conn)
	s := &supervisor{out: spool.New(conn, 0), clock: clock, result: Event{Kind: Ended}}
	defer s.out.Close()
	var o order
	if dec.Decode(&o) != nil {
		return
	}
	var err error
	if s.alarm, err = clock.newAlarm(); err == nil {
		s.proc, err = start(o)
	}
	if err != nil {
		s.tell(Event{Kind: failed, Err: err.Error()})
		return
	}
	defer s.alarm.close()
	s.schedule = schedule{onLost: o.OnLost, killAfter: o.KillAfter}
	s.max, s.group = o.Max, o.Group
	s.tell(Event{Kind: ready, PIDs: []int{s.proc.commandPID()}})

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
		s.alarm.set(s.schedule.next())
		select {
		case o, ok := <-orders:
			if !ok {
				orders = nil
				s.abandoned()
				continue
			}
			s.obey(o)
		case <-s.proc.changed():
			s.collect()
		case <-s.alarm.rings():
		}
		s.tick()
	}
	s.tell(s.result)
	// The keeper stays until the parent has read the result: if it ended earlier, the parent would take it for dead.
	for range received {
	}
}

func (s *supervisor) tell(ev Event) { _ = json.NewEncoder(s.out).Encode(ev) } // never fails

func (s *supervisor) obey(o order) {
	switch o.Op {
	case opRelease:
		s.schedule.move(o.Deadline)
		if s.max > 0 {
			s.schedule.overtime = s.clock.now() + instant(s.max)
		}
		// If this process was stopped after the order was sent, the lock may have been lost meanwhile.
		if s.tick(); s.schedule.killAt == 0 {
			s.released = true
			s.proc.release()
		}
	case opDeadline:
		s.schedule.move(o.Deadline)
	case opSignal:
		s.proc.signal(o.Signal)
	case opLost:
		if !s.schedule.lost {
			s.lose()
		}
	}
}

func (s *supervisor) tick() {
	now := s.clock.now()
	if at := s.schedule.lossAt(); at != 0 && now >= at {
		s.tell(Event{Kind: Losing})
		s.lose()
	}
	if at := s.schedule.overtime; at != 0 && now >= at {
		s.schedule.overtime = 0
		if !s.exited && s.schedule.killAt == 0 {
			s.tell(Event{Kind: Overtime})
			s.result.Cause = CauseMaxRuntime
			s.end(s.schedule.killAfter)
		}
	}
	if at := s.schedule.killAt; at != 0 && now >= at {
		s.kill()
	}
}

// lose does what OnLost says. A command that has not begun is not run, whatever OnLost says.
func (s *supervisor) lose() {
	s.schedule.lose()
	if !s.released {
		s.result.Cause = CauseNotRun
		s.end(0)
		return
	}
	switch s.schedule.onLost {
	case Ignore:
	case Notify:
		s.proc.notify()
	default:
		if !s.exited && s.result.Cause == "" {
			s.result.Cause = CauseLost
		}
		s.end(s.schedule.grace())
	}
}

// abandoned ends the job because the parent has died. The lock is no longer renewed, but stays held until the deadline.
func (s *supervisor) abandoned() {
	s.proc.takeTerminal(s.group)
	s.end(s.schedule.grace())
	s.tick()
}

// end sends TERM, and schedules KILL after grace, but before the deadline.
func (s *supervisor) end(grace time.Duration) {
	if s.schedule.killAt == 0 && grace > 0 {
		s.proc.terminate()
	}
	s.schedule.end(s.clock.now(), grace)
}

// kill sends KILL, and schedules the next KILL: the children of a killed process can be found only when it has died.
func (s *supervisor) kill() {
	denied := s.proc.kill()
	if len(denied) > 0 && !s.denied {
		s.denied = true
		s.tell(Event{Kind: Denied, PIDs: denied})
	}
	s.retry = min(max(2*s.retry, 2*time.Millisecond), 500*time.Millisecond)
	s.schedule.killAt = s.clock.now() + instant(s.retry)
}

func (s *supervisor) collect() {
	for _, c := range s.proc.reap() {
		if c.stopped {
			s.tell(Event{Kind: Stopped, Signal: c.signal})
			continue
		}
		s.exited = true
		s.result.Code, s.result.Signal = c.code, c.signal
	}
	if s.retry > 0 {
		// The orphans of processes that have died may now be children of this process.
		s.retry, s.schedule.killAt = time.Millisecond, s.clock.now()
		return
	}
	if !s.exited || s.done() || s.schedule.killAt != 0 {
		return
	}
	s.tell(Event{Kind: Leftover, PIDs: s.proc.remaining()})
	s.end(s.schedule.killAfter)
}

func (s *supervisor) done() bool { return s.exited && s.proc.gone() }
