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
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/tty"
)

// execution is a command that runs under a lease.
type execution struct {
	run   *Run
	job   *Job
	lease *holdfast.Lease
	// keptUntil is the time until which --min-hold keeps the lock.
	keptUntil time.Time

	kept *keeper.Job
	lost error // why the lease was lost, or nil
	told bool  // a signal that asks programs to end was passed on

	terminal *tty.Terminal // nil if there is none
	group    int           // our process group
	shares   bool          // the command shares the foreground of the terminal with us
}

// execute runs the command until its last process has ended.
func (x *execution) execute(env []string) (keeper.Event, error) {
	streams := x.run.Streams
	kept, err := keeper.Start(keeper.Spec{
		Path: x.job.path, Args: x.job.Args, Env: env,
		Stdin: streams.In, Stdout: streams.Out, Stderr: streams.Err,
		OnLost: x.job.OnLost, KillAfter: x.job.KillAfter, MaxRuntime: x.job.MaxRuntime,
	})
	if err != nil {
		return keeper.Event{}, err
	}
	x.kept, x.group, x.terminal = kept, tty.OwnGroup(), tty.Open()
	defer x.terminal.Close()
	signals.AllowTerminalFromBackground()
	// If only one of them is a terminal, the command may be in a pipe with a pager or an editor that uses the terminal.
	// Then the command gets the foreground only when it asks for it.
	x.shares = console.IsTerminal(streams.In) && console.IsTerminal(streams.Out)
	if x.shares {
		x.terminal.Pass(x.group, kept.PID)
	}
	defer x.terminal.Pass(kept.PID, x.group)

	lost := x.lease.Done()
	deadline := x.lease.Deadline()
	if x.lost = x.lease.Err(); x.lost != nil { // since it was acquired
		lost = nil
		kept.Lost()
	} else {
		kept.Release(deadline)
		x.run.Console.Detailf("running %s, pid %d", x.job.path, kept.PID)
	}

	// The library renews the lease. A renewal shows by a later deadline.
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

// awaitKeeper waits for the keeper to exit. The lock may be released before that, as nothing of the job runs any more.
func (x *execution) awaitKeeper() {
	if x.kept != nil {
		x.kept.Wait()
	}
}

// lose has the keeper do what --on-lost says. If the deadline came near, the keeper has done so already.
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

// letGo asks the command to end, because an operator asks the holder to let go.
func (x *execution) letGo(e holdfast.LeaseEvent) {
	if e.Fence != x.lease.Fence() { // of an earlier term
		return
	}
	after := ""
	if time.Until(x.keptUntil) > 0 {
		after = fmt.Sprintf("; the lock stays until %s (--min-hold)", x.keptUntil.Format(time.TimeOnly))
	}
	x.run.Console.Notef("%s; sending TERM to the command%s", x.run.revocation(e), after)
	x.kept.Signal(int(syscall.SIGTERM))
}

// handle handles an event of the keeper.
func (x *execution) handle(ev keeper.Event) {
	c := x.run.Console
	switch ev.Kind {
	case keeper.Stopped:
		x.stopAlong(ev.Signal)
	case keeper.Losing:
		c.Notef("lock %q on %s has not been renewed, and expires at %s (--on-lost=%s)",
			x.run.Name, x.run.report.Server, x.lease.Deadline().Format("15:04:05.000"), x.job.OnLost)
	case keeper.Overtime:
		c.Detailf("--max-runtime %s is over; ending the command", x.job.MaxRuntime)
	case keeper.Leftover:
		c.Notef("the command ended, but left processes running: %v; ending them", ev.PIDs)
	case keeper.Denied:
		c.Warnf("no permission to end processes %v; waiting for them", ev.PIDs)
	}
}

// passOn passes a signal on to the command.
func (x *execution) passOn(sig os.Signal) {
	switch {
	case signals.Continues(sig):
		x.resume()
	case !signals.IsBrokenPipe(sig):
		x.told = x.told || signals.EndsProgram(sig)
		x.kept.Signal(signals.Number(sig))
	}
}

// stopAlong stops us after the command was stopped, so that a shell that waits for us notices.
func (x *execution) stopAlong(sig int) {
	if x.terminal == nil {
		return
	}
	if signals.IsTerminalAccess(sig) {
		x.shares = true
		if x.terminal.Foreground(x.group) || x.terminal.Foreground(x.kept.PID) {
			x.resume()
			return
		}
	}
	x.terminal.Pass(x.kept.PID, x.group)
	signals.StopGroup()
	// A stop does not reach all threads at once. If no shell could continue us, the system ignores the stop, and ^Z
	// has no effect.
	time.Sleep(10 * time.Millisecond)
	x.resume()
}

// resume continues the command, in the foreground if we are there.
func (x *execution) resume() {
	if x.shares {
		x.terminal.Pass(x.group, x.kept.PID)
	}
	x.kept.Signal(signals.Continue)
}
