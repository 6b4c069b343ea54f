// Package keeper runs a job that must not outlive its lock.
//
// A keeper watches the job. It knows the deadline of the lock, and ends the job by itself when the deadline is near.
//
// On Linux the keeper is a process, so that it acts even while its parent is stopped, and after its parent was killed. It is a child
// subreaper: orphans of the job, even those that called setsid, become its children, and so it finds them.
//
//   - If the keeper is killed, the kernel kills the command (PR_SET_PDEATHSIG) and gives the other processes to the parent, which is a
//     subreaper, too. The parent kills them, and waits for those that it may not kill. The keeper's end continues a stopped parent.
//   - If the keeper is stopped, each renewal continues it, and so does the kernel, again and again, when the keeper has to act. If it still
//     has not ended the job just before the deadline, the parent kills it.
//   - If parent and keeper are killed at the same instant, processes that the command has started survive, but not the command.
//
// On other systems the keeper is a goroutine. It ends the job's process group or, on Windows, only the command.
package keeper

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/spool"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// Policy says what happens to a job that loses its lock.
type Policy string

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
	MaxRuntime time.Duration // 0 for no bound
}

// Cause says why the keeper ended the command.
type Cause string

const (
	CauseLost       Cause = "lost"        // the lock was lost, or about to be lost
	CauseNotRun     Cause = "not-run"     // the lock was lost before the command began
	CauseMaxRuntime Cause = "max-runtime" // MaxRuntime had passed
)

// Kind is the kind of an Event.
type Kind int

const (
	Stopped  Kind = iota + 1 // Signal stopped the command
	Losing                   // the deadline is near, and the keeper does what OnLost says
	Overtime                 // MaxRuntime has passed, and the keeper ends the job
	Leftover                 // the command has ended, but the processes PIDs have not; the keeper ends them
	Denied                   // the processes PIDs may not be killed
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
	out    *spool.Writer // to the keeper, which may be stopped
	guard  *guard
	wake   func() // as in link
	events chan Event
}

// link is a parent's hold on its keeper.
type link struct {
	conn io.ReadWriteCloser
	kill func()       // kills the keeper; nil if it is not a process
	wake func()       // continues a stopped keeper; nil if it is not a process
	wait func() error // waits for the keeper's end
	// cleanUp kills the processes of a dead keeper's job. It passes those that it may not kill to denied, and waits for them.
	cleanUp func(denied func([]int))
}

// order is a message from a parent to its keeper.
type order struct {
	Op        op
	Signal    int
	Deadline  instant
	OnLost    Policy
	KillAfter time.Duration
	Max       time.Duration
	Group     int    // the parent's process group, which gets the terminal back
	Command   []byte // the program's path and arguments, separated by NUL. They are bytes because JSON strings must be UTF-8
}

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

// Start starts a keeper and the command, which waits for Release. It fails only if the system cannot start processes. If the program cannot
// be executed, that shows after Release, by exit code 126 or 127.
func Start(spec Spec) (*Job, error) {
	l, err := spawn(spec)
	if err != nil {
		return nil, err
	}
	return begin(l, systemClock{}, spec)
}

// begin tells a keeper to start the command.
func begin(l *link, clock clock, spec Spec) (*Job, error) {
	j := &Job{clock: clock, wake: l.wake, events: make(chan Event, 16), out: spool.New(l.conn, 0)}
	dec := json.NewDecoder(l.conn)
	j.send(order{
		Op: opStart, Command: []byte(strings.Join(append([]string{spec.Path}, spec.Args...), "\x00")), OnLost: spec.OnLost,
		KillAfter: spec.KillAfter, Max: spec.MaxRuntime, Group: terminal.OwnGroup(),
	})
	var ev Event
	err := dec.Decode(&ev)
	switch {
	case err != nil:
		err = errors.Join(errors.New("keeper did not start"), err)
	case ev.Kind == failed:
		err = errors.New(ev.Err)
	}
	if err != nil {
		l.conn.Close()
		j.out.Close()
		return nil, errors.Join(err, l.wait())
	}
	j.PID = ev.PIDs[0]
	j.guard = newGuard(clock, spec.OnLost, spec.KillAfter, l.kill)
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
			j.guard.end() // killing the keeper would not help
		}
		if err == nil && ev.Kind != Ended {
			j.events <- ev
			continue
		}
		killed := j.guard.end()
		l.conn.Close()
		if err == nil {
			// The keeper is a subreaper without children, so no process of the job remains. The caller may release the lock while the
			// keeper exits.
			j.events <- ev
		}
		j.out.Close()
		werr := l.wait()
		if err != nil {
			// Now that wait has returned, the keeper's children are children of this process.
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

// Events returns a channel of what happens to the job. After Ended, no process of the job runs. The channel is closed when the keeper has
// exited, too.
func (j *Job) Events() <-chan Event { return j.events }

// Wait waits for the keeper to exit. It is called after the event Ended.
func (j *Job) Wait() {
	for range j.events {
	}
}

// Release lets the command run. The lock is certain until deadline.
func (j *Job) Release(deadline time.Time) {
	at := j.toInstant(deadline)
	j.guard.release(at)
	j.send(order{Op: opRelease, Deadline: at})
}

// SetDeadline tells the keeper that the lock is now certain until t.
func (j *Job) SetDeadline(t time.Time) {
	at := j.toInstant(t)
	j.guard.move(at)
	j.send(order{Op: opDeadline, Deadline: at})
}

// Signal sends sig to the job's process group.
func (j *Job) Signal(sig int) { j.send(order{Op: opSignal, Signal: sig}) }

// Lost tells the keeper that the lock is lost. The keeper does at once what OnLost says.
func (j *Job) Lost() {
	j.guard.lose()
	j.send(order{Op: opLost})
}

func (j *Job) send(o order) {
	_ = json.NewEncoder(j.out).Encode(o) // never fails
	if j.wake != nil {
		j.wake() // otherwise, a stopped keeper would read a later deadline only after the old one
	}
}

// toInstant converts t to the clock that keeper and parent share. It reads that clock first, so that a pause between the two readings makes
// the result too early, never too late.
func (j *Job) toInstant(t time.Time) instant {
	now := j.clock.now()
	return now + instant(time.Until(t))
}

// Main runs a keeper if the arguments ask for one. It must be called at the beginning of main, or earlier: see package early.
func Main(args []string) (code int, ok bool) {
	if len(args) == 0 || args[0] != keepArg {
		return 0, false
	}
	return keep(args[1:]), true
}

const keepArg = "__keep"
