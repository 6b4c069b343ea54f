// Package keeper runs a job that must not outlive its lock.
//
// A keeper watches the job. It knows the deadline of the lock, and ends the job by itself when the deadline is near.
//
// On Linux the keeper is a process, so that it acts even while its parent is stopped, and after its parent was killed.
// It is a child subreaper: processes that the job leaves behind, even those that called setsid, become its children,
// where it finds them. If the keeper is killed, the kernel kills the command with it (PR_SET_PDEATHSIG), and hands the
// rest to the parent, which is a subreaper, too. The parent kills them, and waits for those that it may not kill; the
// end of the keeper continues a parent that is stopped. A keeper that is stopped is continued by each renewal, and by
// the kernel when it has to act. If it still has not ended the job just before the deadline, its parent kills it. Only if
// parent and keeper are killed at the same instant does anything remain: processes that the command had started, but
// not the command itself.
//
// On other systems the keeper is a goroutine. It ends the job's process group, or on Windows the command alone.
package keeper

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
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
	Notify    Policy = "notify"    // USR1 to the command at deadline − KillAfter; it continues
	Ignore    Policy = "ignore"    // nothing; it continues
)

// Spec describes a job.
type Spec struct {
	Path string   // of the program
	Args []string // beginning with the program's name
	Env  []string

	Stdin          io.Reader
	Stdout, Stderr io.Writer

	OnLost     Policy
	KillAfter  time.Duration // from TERM to KILL
	MaxRuntime time.Duration // 0: no bound
}

// Cause says why the keeper ended the command.
type Cause string

// The causes.
const (
	CauseLost       Cause = "lost"        // the lock was lost, or about to be
	CauseNotRun     Cause = "not-run"     // the lock was lost before the command began
	CauseMaxRuntime Cause = "max-runtime" // MaxRuntime was over
)

// Kind is the kind of an Event.
type Kind int

// The kinds of events.
const (
	Stopped  Kind = iota + 1 // Signal stopped the command
	Losing                   // the deadline is near, and the keeper does what OnLost says
	Overtime                 // MaxRuntime is over, and the keeper ends the job
	Leftover                 // the command has ended, but PIDs have not; the keeper ends them
	Denied                   // there is no permission to end PIDs
	Ended                    // the whole job has ended, or the keeper has died (Err); the last event
	ready                    // the command waits to be released
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

// Job is a job under a keeper. Its methods do not block, and must be called from one goroutine.
type Job struct {
	PID    int // of the command, and of its process group
	clock  clock
	out    *outbox[order]
	guard  *guard
	wake   func() // as in link
	events chan Event
}

// link is what a parent has of its keeper.
type link struct {
	conn io.ReadWriteCloser
	kill func()       // kills the keeper; nil if it is not a process
	wake func()       // continues a stopped keeper; nil if kill is
	wait func() error // waits for the keeper's end
	// cleanUp ends the processes of a dead keeper's job, and waits for those that it may not end, after telling denied about them.
	cleanUp func(denied func([]int))
}

// order is what a parent tells its keeper.
type order struct {
	Op        op
	Signal    int
	Deadline  instant
	OnLost    Policy
	KillAfter time.Duration
	Max       time.Duration
	Group     int    // the parent's process group, which gets the terminal back
	Command   []byte // the program's path and its arguments, separated by NUL: bytes, because JSON strings must be UTF-8
}

// command returns the program's path and its arguments.
func (o order) command() (path string, args []string) {
	words := strings.Split(string(o.Command), "\x00")
	return words[0], words[1:]
}

type op int

const (
	opStart    op = iota + 1
	opRelease     // run the command
	opDeadline    // the lock is certain until Deadline
	opSignal
	opLost // the lock is lost
)

// Start starts a keeper and the command, which waits for Release. It fails only if the system cannot start processes.
// A file that cannot be executed shows after Release, by exit code 126 or 127.
func Start(spec Spec) (*Job, error) {
	l, err := spawn(spec)
	if err != nil {
		return nil, err
	}
	return begin(l, systemClock{}, spec)
}

// begin makes a keeper start the command.
func begin(l *link, clock clock, spec Spec) (*Job, error) {
	j := &Job{clock: clock, wake: l.wake, events: make(chan Event, 16)}
	dec := json.NewDecoder(l.conn)
	j.out = newOutbox(json.NewEncoder(l.conn), func(older, newer order) bool {
		return older.Op == opDeadline && newer.Op == opDeadline
	})
	j.out.add(order{
		Op: opStart, Command: []byte(strings.Join(append([]string{spec.Path}, spec.Args...), "\x00")), OnLost: spec.OnLost,
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

// listen passes on the keeper's events until it has ended.
func (j *Job) listen(dec *json.Decoder, l *link) {
	defer close(j.events)
	for {
		var ev Event
		err := dec.Decode(&ev)
		if err == nil && ev.Kind == Denied {
			j.guard.end() // The keeper is doing all that can be done.
		}
		if err == nil && ev.Kind != Ended {
			j.events <- ev
			continue
		}
		killed := j.guard.end()
		l.conn.Close()
		if err == nil {
			// The keeper has no children left. It is a subreaper, so any process of the job that remained would be its child.
			// The caller may therefore release the lock while the keeper exits.
			j.events <- ev
		}
		j.out.close()
		werr := l.wait()
		if err != nil {
			// The keeper's children become ours only when wait has returned.
			l.cleanUp(func(pids []int) { j.events <- Event{Kind: Denied, PIDs: pids} })
			ev = Event{Kind: Ended, Err: "keeper died: " + errors.Join(err, werr).Error()}
			if killed != "" {
				ev = Event{Kind: Ended, Signal: int(syscall.SIGKILL), Cause: killed}
			}
			j.events <- ev
		}
		return
	}
}

// Events returns what happens to the job. After Ended nothing of the job runs, but the keeper may still be exiting. The
// channel is closed when the keeper has exited.
func (j *Job) Events() <-chan Event { return j.events }

// Wait waits for the keeper to exit. It is called after Ended.
func (j *Job) Wait() {
	for range j.events {
	}
}

// Release runs the command under a lock that is certain until deadline.
func (j *Job) Release(deadline time.Time) {
	at := j.toInstant(deadline)
	j.guard.release(at)
	j.out.add(order{Op: opRelease, Deadline: at})
}

// SetDeadline says that the lock is now certain until t.
func (j *Job) SetDeadline(t time.Time) {
	at := j.toInstant(t)
	j.guard.move(at)
	j.out.add(order{Op: opDeadline, Deadline: at})
	// A stopped keeper must read this before the end of the last lease that it knows of continues it.
	if j.wake != nil {
		j.wake()
	}
}

// Signal sends sig to the job's process group.
func (j *Job) Signal(sig int) { j.out.add(order{Op: opSignal, Signal: sig}) }

// Lost says that the lock is lost: the keeper does at once what OnLost says.
func (j *Job) Lost() {
	j.guard.lose()
	j.out.add(order{Op: opLost})
}

// toInstant converts t to the clock that keeper and parent share. It reads that clock first: a pause in between makes
// the result early, never late.
func (j *Job) toInstant(t time.Time) instant {
	now := j.clock.now()
	return now + instant(time.Until(t))
}

// Main runs a keeper if the arguments ask for one. It must be called first in main, or earlier: see package early.
func Main(args []string) (code int, ok bool) {
	if len(args) == 0 || args[0] != keepArg {
		return 0, false
	}
	return keep(args[1:]), true
}

const keepArg = "__keep"
