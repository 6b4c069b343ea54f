//go:build unix

package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper/launcher"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// command is the command, which leads a process group, and the processes that it started.
type command struct {
	pid  int
	sigs chan os.Signal // SIGCHLD

	gate      io.Closer // releases the command
	reaped    bool      // pid, which is also the group's number, may be reused
	childless bool      // wait4 has no child left to wait for
}

// startCommand starts a launcher, which waits for release and then becomes the command. This leaves time to give the command the terminal.
// Of spec, only the environment and the streams count.
func startCommand(o order, spec Spec) (*command, error) {
	path, args := o.command()
	files, err := spec.files()
	if err != nil {
		return nil, err
	}
	exe, err := self()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	c := &command{gate: w, sigs: make(chan os.Signal, 1)}
	signal.Notify(c.sigs, unix.SIGCHLD)
	fd, err := inheritable(r)
	if err == nil {
		defer unix.Close(fd)
		c.pid, err = syscall.ForkExec(exe, launcher.Argv(fd, path, args), &syscall.ProcAttr{
			Env: spec.Env, Files: files, Sys: commandAttr(),
		})
	}
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("start a process: %w", err)
	}
	return c, nil
}

func (c *command) commandPID() int { return c.pid }

func (c *command) changed() <-chan os.Signal { return c.sigs }

func (s Spec) files() ([]uintptr, error) {
	var fds []uintptr
	for _, v := range []any{s.Stdin, s.Stdout, s.Stderr} {
		f, ok := v.(*os.File)
		if !ok {
			return nil, errors.New("stdin, stdout and stderr must be files")
		}
		fds = append(fds, f.Fd())
	}
	return fds, nil
}

// inheritable returns a copy of f that a child inherits under the same number. The caller closes it.
//
// The number is high: at least 100 or, if fewer than 200 files may be open, in the upper half of the allowed numbers. The numbers from 3
// may be files that the job should inherit, and a forked child moves its own files to the numbers after its stdin, stdout and stderr,
// whatever is there (syscall.forkAndExecInChild1).
func inheritable(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &most); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	least := 100
	if most.Cur < 200 {
		least = int(most.Cur) / 2
	}
	cerr := raw.Control(func(n uintptr) {
		fd, err = unix.FcntlInt(n, unix.F_DUPFD, least)
	})
	if err := errors.Join(cerr, err); err != nil {
		return 0, fmt.Errorf("copy a file for a child: %w", err)
	}
	return fd, nil
}

func (c *command) release() {
	if w, ok := c.gate.(io.Writer); ok {
		_, _ = w.Write([]byte{1}) // fails only if the launcher was killed
	}
	c.gate.Close()
}

// reap reaps processes that have ended, and returns what happened to the command.
func (c *command) reap() (changes []change) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(c.waitFor(), &ws, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			c.childless = true
			return changes
		case pid == 0:
			return changes
		case pid != c.pid:
		case ws.Stopped():
			changes = append(changes, change{stopped: true, signal: int(ws.StopSignal())})
		case ws.Signaled():
			c.reaped = true
			changes = append(changes, change{signal: int(ws.Signal())})
		default:
			c.reaped = true
			changes = append(changes, change{code: ws.ExitStatus()})
		}
	}
}

func (c *command) signal(sig int) { c.toGroup(unix.Signal(sig)) }

// notify signals only the command: USR1 would kill helpers that do not expect it.
func (c *command) notify() {
	if !c.reaped {
		_ = unix.Kill(c.pid, unix.SIGUSR1)
	}
}

// toGroup sends a signal to the group. It ignores errors: an empty group needs no signal, and kill reports processes that it may not kill.
func (c *command) toGroup(sig unix.Signal) {
	if !c.reaped {
		_ = unix.Kill(-c.pid, sig)
	}
}

// takeTerminal gives the terminal to group if the job has its foreground.
func (c *command) takeTerminal(group int) {
	t := terminal.Open()
	t.Pass(c.pid, group)
	t.Close()
}
