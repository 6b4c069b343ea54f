package cli

import (
	"context"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/tty"
)

// session is a command that runs under a lease.
type session struct {
	*runner
	lease *holdfast.Lease
	job   *keeper.Job
	lost  error // why the lease was lost, or nil

	term  *tty.Terminal // nil if there is none
	group int           // our process group
	front bool          // the command wants the terminal's foreground when we have it
}

// run runs the command to the end of its last process.
func (s *session) run(spec keeper.Spec) (keeper.Event, error) {
	job, err := keeper.Start(spec)
	if err != nil {
		return keeper.Event{}, err
	}
	s.job, s.group, s.term = job, tty.OwnGroup(), tty.Open()
	defer s.term.Close()
	tolerateBackground()
	// Where only one of them is a terminal, a pager or an editor may share it with
	// the command. The command gets the foreground all the same when it asks.
	s.front = isTerminal(s.stdin) && isTerminal(s.stdout)
	if s.front {
		s.term.Pass(s.group, job.PID)
	}
	defer s.term.Pass(job.PID, s.group)

	over := s.lease.Done()
	deadline := s.lease.Deadline()
	if s.lost = s.lease.Err(); s.lost != nil { // in the time that it took to come here
		over = nil
		job.Lost()
	} else {
		job.Release(deadline)
		s.voice.tell("running %s, pid %d", spec.Path, job.PID)
	}

	// Renewals are the library's: all there is to see is that the deadline moves.
	tick := time.NewTicker(min(max(s.ttl/30, 5*time.Millisecond), 250*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if d := s.lease.Deadline(); d.After(deadline) {
				deadline = d
				job.SetDeadline(d)
			}
		case <-over:
			over = nil
			s.lose(context.Cause(s.lease.Context(context.Background())))
		case sig := <-s.signals:
			s.hear(sig)
		case ev := <-job.Events():
			if ev.Kind == keeper.Ended {
				return ev, nil
			}
			s.heed(ev)
		}
	}
}

// lose has the keeper do as --on-lost says; it did already if it was the deadline
// that came near.
func (s *session) lose(cause error) {
	s.lost = cause
	s.job.Lost()
	switch keeper.Policy(s.onLost) {
	case keeper.Notify, keeper.Ignore:
		s.voice.fail(cause)
		s.voice.note("the command runs on without the lock (--on-lost=%s)", s.onLost)
	default:
		s.voice.tell("%v; ending the command", cause)
	}
}

// heed deals with what the keeper tells.
func (s *session) heed(ev keeper.Event) {
	switch ev.Kind {
	case keeper.Stopped:
		s.mirror(ev.Signal)
	case keeper.Losing:
		s.voice.note("lock %q on %s is not being renewed, and ends at %s (--on-lost=%s)",
			s.name, s.report.Server, s.lease.Deadline().Format("15:04:05.000"), s.onLost)
	case keeper.Overtime:
		s.voice.tell("--max-runtime %s is over; ending the command", s.maxRuntime)
	case keeper.Leftover:
		s.voice.note("the command ended, but left processes running: %v; ending them", ev.PIDs)
	case keeper.Denied:
		s.voice.note("warning: no permission to end processes %v; waiting for them", ev.PIDs)
	}
}

// hear passes a signal on.
func (s *session) hear(sig os.Signal) {
	switch {
	case continues(sig):
		s.resume()
	case !ours(sig):
		s.stopped = s.stopped || interrupts(sig)
		s.job.Signal(number(sig))
	}
}

// mirror stops us as the command was stopped: a shell that waits for us is to know.
func (s *session) mirror(sig int) {
	if s.term == nil {
		return
	}
	if wantsTerminal(sig) {
		s.front = true
		if s.term.Foreground(s.group) || s.term.Foreground(s.job.PID) {
			s.resume()
			return
		}
	}
	s.term.Pass(s.job.PID, s.group)
	stopGroup()
	// A stop does not reach all threads at once; and where no shell could continue
	// us, the system ignores it, and ^Z has no effect here either.
	time.Sleep(10 * time.Millisecond)
	s.resume()
}

// resume lets the command go on, in the foreground if we are.
func (s *session) resume() {
	if s.front {
		s.term.Pass(s.group, s.job.PID)
	}
	s.job.Signal(numberOfContinue)
}

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && tty.Is(f)
}
