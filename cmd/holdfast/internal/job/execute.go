package job

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

type execution struct {
	run   *Run
	job   *Job
	lease *holdfast.Lease

	keptUntil time.Time // until when --min-hold keeps the lock
	kept      *keeper.Job
	lost      error // why the lease was lost, or nil
	told      bool  // a signal that asks programs to end was passed on

	terminal *terminal.Terminal // nil if there is none
	group    int                // the process group of holdfast
	shares   bool               // the command shares the terminal's foreground with holdfast
}

// execute runs the command until its last process has ended.
func (x *execution) execute(env []string) (keeper.Event, error) {
	streams, spec := x.run.Streams, x.job.Spec
	spec.Env, spec.Stdin, spec.Stdout, spec.Stderr = env, streams.In, streams.Out, streams.Err
	kept, err := keeper.Start(spec)
	if err != nil {
		return keeper.Event{}, err
	}
	x.kept, x.run.kept, x.group, x.terminal = kept, kept, terminal.OwnGroup(), terminal.Open()
	defer x.terminal.Close()
	// If only one of the two is a terminal, the command may be in a pipe with a pager or an editor that uses the terminal. Then the
	// command gets the foreground only when it asks for it.
	x.shares = console.IsTerminal(streams.In) && console.IsTerminal(streams.Out)
	if x.shares {
		x.terminal.Pass(x.group, kept.PID)
	}
	defer x.terminal.Pass(kept.PID, x.group)

	lost := x.lease.Done()
	deadline := x.lease.Deadline()
	if x.lost = x.lease.Err(); x.lost != nil {
		lost = nil
		kept.Lost()
	} else {
		kept.Release(deadline)
		x.run.Console.Detailf("running %s, pid %d", x.job.Path, kept.PID)
	}

	// The library renews the lease. A later deadline shows a renewal.
	tick := time.NewTicker(min(max(x.job.TTL/30, 5*time.Millisecond), 250*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if d := x.lease.Deadline(); d.After(deadline) {
				deadline = d
				kept.SetDeadline(d)
			}
		case <-lost:
			lost = nil
			x.lose(context.Cause(x.lease.Context(context.Background())))
		case sig := <-x.run.signals:
			x.passOn(sig)
		case e := <-x.run.revoked:
			x.letGo(e)
		case ev := <-kept.Events():
			if ev.Kind == keeper.Ended {
				return ev, nil
			}
			x.handle(ev)
		}
	}
}

// awaitKeeper waits for the keeper to exit, the last process of the job. It is called after the completion was recorded, which must not wait.
func (r *Run) awaitKeeper() {
	if r.kept != nil {
		r.kept.Wait()
	}
}

// lose makes the keeper do what --on-lost says. Shortly before the deadline, the keeper does so by itself.
func (x *execution) lose(cause error) {
	x.lost = cause
	x.kept.Lost()
	switch x.job.OnLost {
	case keeper.Notify, keeper.Ignore:
		x.run.Console.Error(cause)
		x.run.Console.Notef("the command continues without the lock (--on-lost=%s)", x.job.OnLost)
	default:
		x.run.Console.Detailf("%v; ending the command", cause)
	}
}

// letGo sends TERM to the command when an operator asks the holder to let go.
func (x *execution) letGo(e holdfast.LeaseEvent) {
	if e.Fence != x.lease.Fence() { // the request is about an earlier term
		return
	}
	after := ""
	if time.Until(x.keptUntil) > 0 {
		after = fmt.Sprintf("; the lock stays until %s (--min-hold)", x.keptUntil.Format(time.TimeOnly))
	}
	x.run.Console.Notef("%s; sending TERM to the command%s", x.run.revocation(e), after)
	x.kept.Signal(int(syscall.SIGTERM))
}

// handle tells the user of an event of the keeper, and follows the command when that was stopped.
func (x *execution) handle(ev keeper.Event) {
	c := x.run.Console
	switch ev.Kind {
	case keeper.Stopped:
		x.stopAlong(ev.Signal)
	case keeper.Losing:
		c.Notef("lock %q on %s has not been renewed, and expires at %s (--on-lost=%s)",
			x.run.Name, x.run.Servers.Addr(), x.lease.Deadline().Format("15:04:05.000"), x.job.OnLost)
	case keeper.Overtime:
		c.Detailf("--max-runtime %s is over; ending the command", x.job.MaxRuntime)
	case keeper.Leftover:
		c.Notef("the command ended, but left processes running: %v; ending them", ev.PIDs)
	case keeper.Denied:
		c.Warnf("no permission to end processes %v; waiting for them", ev.PIDs)
	}
}

func (x *execution) passOn(sig os.Signal) {
	switch {
	case sig == terminal.Continue:
		x.resume()
	case sig != terminal.BrokenPipe:
		x.told = x.told || terminal.EndsProgram(sig)
		x.run.Console.Detailf("%s: passed on to the command; no KILL follows", sig)
		x.kept.Signal(terminal.Number(sig))
	}
}

// stopAlong stops holdfast after the command was stopped, so that a shell that waits for holdfast notices.
func (x *execution) stopAlong(sig int) {
	if x.terminal == nil {
		return
	}
	if terminal.StopsUsers(sig) {
		x.shares = true
		if x.terminal.Foreground(x.group) || x.terminal.Foreground(x.kept.PID) {
			x.resume()
			return
		}
	}
	x.terminal.Pass(x.kept.PID, x.group)
	terminal.StopGroup()
	// A stop does not reach all threads at once. If no shell could continue holdfast, the system ignores the stop, and ^Z has no effect.
	time.Sleep(10 * time.Millisecond)
	x.resume()
}

// resume continues the command, in the foreground if holdfast is there.
func (x *execution) resume() {
	if x.shares {
		x.terminal.Pass(x.group, x.kept.PID)
	}
	x.kept.Signal(int(terminal.Continue))
}
