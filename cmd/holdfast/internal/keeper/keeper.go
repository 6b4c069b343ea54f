// Package keeper runs a job that must not outlive its lock.
//
// The job is watched by a keeper, which knows the deadline of the lock and ends
// the job by itself when the deadline comes near. On Linux the keeper is a
// process of its own, so that it does so even while its parent is stopped, and
// after its parent was killed. It is a child subreaper: what the job leaves
// behind, also what called setsid, becomes the keeper's child and is found. If
// the keeper itself is killed, the kernel kills the command with it
// (PR_SET_PDEATHSIG) and hands the rest to the parent, a subreaper too, which
// kills them, and waits for those that it may not kill; a parent that is stopped
// is continued for that. A keeper that is stopped is continued by each renewal,
// and by the kernel when it has to act; if it has not ended the job when the
// deadline is next, its parent kills it. Only a parent and a keeper killed at
// the same instant leave anything: what the command had started, though not the
// command itself.
//
// Elsewhere the keeper is a goroutine, and what it ends is the job's process
// group; on Windows, the command alone.
package keeper

import (
	"encoding/gob"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/tty"
)

// Policy says what happens to a job that loses its lock.
type Policy string

// The policies.
const (
	Terminate Policy = "terminate" // TERM at deadline − KillAfter, then KILL before the deadline
	Kill      Policy = "kill"      // KILL before the deadline
	Notify    Policy = "notify"    // USR1 to the command at deadline − KillAfter; it runs on
	Ignore    Policy = "ignore"    // nothing; it runs on
)

// Spec describes a job.
type Spec struct {
	Path string   // what to execute
	Args []string // its arguments, beginning with its name
	Env  []string

	Stdin          io.Reader
	Stdout, Stderr io.Writer

	OnLost     Policy
	KillAfter  time.Duration // from TERM to KILL
	MaxRuntime time.Duration // 0: no bound
}

// Cause says why a keeper ended a command that had not ended by itself.
type Cause string

// The causes.
const (
	CauseLost       Cause = "lost"        // the lock was lost, or about to be
	CauseNotRun     Cause = "not-run"     // the lock was lost before the command was let run
	CauseMaxRuntime Cause = "max-runtime" // MaxRuntime was over
)

// Kind is the kind of an Event.
type Kind int

// The kinds of events.
const (
	Stopped  Kind = iota + 1 // the command was stopped by Signal
	Losing                   // the deadline came near, and the keeper does as OnLost says
	Overtime                 // MaxRuntime is over, and the keeper ends the job
	Leftover                 // the command ended, but not PIDs; the keeper ends them
	Denied                   // PIDs cannot be ended for want of permission
	Ended                    // all of the job ended, or the keeper died (Err). No event follows
	ready                    // the command waits at the gate
	failed                   // the command could not be started (Err)
)

// Event is something that happened to a job.
type Event struct {
	Kind   Kind
	PIDs   []int
	Signal int    // Stopped; Ended: the signal that killed the command, or 0
	Code   int    // Ended: the command's exit code, if no signal killed it
	Cause  Cause  // Ended: why the keeper ended the command, or ""
	Err    string // failed; Ended: what went wrong with the keeper, or ""
}

// Job is a job under a keeper. Its methods are called from one goroutine, and wait for nobody.
type Job struct {
	PID    int // of the command, and of its process group
	clock  clock
	out    *outbox[order]
	guard  *guard
	wake   func() // as link's
	events chan Event
}

// link is a parent's hold on its keeper.
type link struct {
	conn  io.ReadWriteCloser
	kill  func()                   // kills the keeper; nil where it is no process of its own
	wake  func()                   // continues a keeper that was stopped; nil where kill is
	wait  func() error             // for the keeper's end
	sweep func(denied func([]int)) // ends what a dead keeper left, and tells what it may not end, and so waits for
}

// order is what a parent tells its keeper.
type order struct {
	Op        op
	Signal    int
	Deadline  instant
	OnLost    Policy
	KillAfter time.Duration
	Max       time.Duration
	Group     int // the parent's process group, which gets the terminal back
	Path      string
	Args      []string
}

type op int

const (
	opStart    op = iota + 1
	opRelease     // let the command run
	opDeadline    // the lock is certain until Deadline
	opSignal
	opLost // the lock is lost
)

// Start starts a keeper and under it the command, which waits at a gate for
// Release. It fails only if the system cannot start processes: a file that
// cannot be executed shows after Release, as exit code 126 or 127.
func Start(spec Spec) (*Job, error) {
	l, err := spawn(spec)
	if err != nil {
		return nil, err
	}
	return begin(l, systemClock{}, spec)
}

// begin has a keeper start the command.
func begin(l *link, clock clock, spec Spec) (*Job, error) {
	j := &Job{clock: clock, wake: l.wake, events: make(chan Event, 16)}
	dec := gob.NewDecoder(l.conn)
	j.out = newOutbox(gob.NewEncoder(l.conn), func(older, newer order) bool {
		return older.Op == opDeadline && newer.Op == opDeadline
	})
	j.out.add(order{
		Op: opStart, Path: spec.Path, Args: spec.Args, OnLost: spec.OnLost,
		KillAfter: spec.KillAfter, Max: spec.MaxRuntime, Group: tty.OwnGroup(),
	})
	var ev Event
	err := dec.Decode(&ev)
	switch {
	case err != nil:
		err = errors.Join(errors.New("keeper did not start"), err)
	case ev.Kind == failed:
		err = errors.New(ev.Err)
	default:
		j.guard, err = newGuard(clock, spec.OnLost, spec.KillAfter, l.kill)
	}
	if err != nil {
		l.conn.Close()
		j.out.close()
		return nil, errors.Join(err, l.wait())
	}
	j.PID = ev.PIDs[0]
	go j.listen(dec, l)
	return j, nil
}

// listen passes the keeper's events on until it has ended.
func (j *Job) listen(dec *gob.Decoder, l *link) {
	defer close(j.events)
	for {
		var ev Event
		err := dec.Decode(&ev)
		if err == nil && ev.Kind == Denied {
			j.guard.end() // The keeper is at it, and nobody else can do more.
		}
		if err == nil && ev.Kind != Ended {
			j.events <- ev
			continue
		}
		killed := j.guard.end()
		l.conn.Close()
		j.out.close()
		werr := l.wait()
		if err != nil {
			// Only since wait has returned are the keeper's children ours.
			l.sweep(func(pids []int) { j.events <- Event{Kind: Denied, PIDs: pids} })
			ev = Event{Kind: Ended, Err: "keeper died: " + errors.Join(err, werr).Error()}
			if killed {
				ev = Event{Kind: Ended, Signal: int(syscall.SIGKILL), Cause: CauseLost}
			}
		}
		j.events <- ev
		return
	}
}

// Events returns what happens to the job. The channel is closed after Ended.
func (j *Job) Events() <-chan Event { return j.events }

// Release lets the command run, under a lock that is certain until deadline.
func (j *Job) Release(deadline time.Time) { j.until(opRelease, deadline) }

// SetDeadline says that the lock is now certain until t.
func (j *Job) SetDeadline(t time.Time) {
	j.until(opDeadline, t)
	// A keeper that was stopped is to hear of it before it is continued by the end of the last lease that it
	// knows of.
	if j.wake != nil {
		j.wake()
	}
}

func (j *Job) until(op op, t time.Time) {
	at := j.toInstant(t)
	j.guard.move(at)
	j.out.add(order{Op: op, Deadline: at})
}

// Signal sends sig to the job's process group.
func (j *Job) Signal(sig int) { j.out.add(order{Op: opSignal, Signal: sig}) }

// Lost says that the lock is lost: the keeper does as OnLost says, at once.
func (j *Job) Lost() {
	j.guard.lose()
	j.out.add(order{Op: opLost})
}

// toInstant converts t to the clock that keeper and parent have in common. The
// clock is read first: a pause in between makes the result early, never late.
func (j *Job) toInstant(t time.Time) instant {
	now := j.clock.now()
	return now + instant(time.Until(t))
}

// Hidden runs args as a keeper or as the stage between a keeper and its
// command, if that is what they are, and reports whether it did. main calls it
// before anything else.
func Hidden(args []string) (code int, was bool) {
	if len(args) == 0 {
		return 0, false
	}
	switch args[0] {
	case keepArg:
		return keep(args[1:]), true
	case launchArg:
		return launch(args[1:], os.Stderr), true
	}
	return 0, false
}

const (
	keepArg   = "__keep"
	launchArg = "__launch"
)
