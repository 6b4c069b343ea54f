//go:build unix

package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/tty"
)

// process is the command, leader of a process group, and what it started.
type process struct {
	pid     int
	changed chan os.Signal // SIGCHLD

	gate      io.Closer
	reaped    bool // its pid, and its group's, may be somebody else's soon
	childless bool // nothing is left to wait for
}

// startProcess starts a stage that waits at the gate and then becomes the
// command: so that the terminal is the command's before it can ask for it.
func startProcess(path string, args []string, with stdio) (*process, error) {
	files, err := with.files()
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
	p := &process{gate: w, changed: make(chan os.Signal, 1)}
	signal.Notify(p.changed, unix.SIGCHLD)
	fd, err := inheritable(r)
	if err == nil {
		defer unix.Close(fd)
		argv := append([]string{"holdfast", launchArg, strconv.Itoa(fd), path}, args...)
		p.pid, err = syscall.ForkExec(exe, argv, &syscall.ProcAttr{
			Env: with.env, Files: files, Sys: jobAttr(),
		})
	}
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("start a process: %w", err)
	}
	return p, nil
}

func (p *process) id() int { return p.pid }

func (p *process) news() <-chan os.Signal { return p.changed }

func (s stdio) files() ([]uintptr, error) {
	var fds []uintptr
	for _, v := range []any{s.in, s.out, s.err} {
		f, ok := v.(*os.File)
		if !ok {
			return nil, errors.New("stdin, stdout and stderr must be files")
		}
		fds = append(fds, f.Fd())
	}
	return fds, nil
}

// inheritable returns a copy of f that passes through the next exec under its own number, because
// numbers from 3 on may be files that the job is to have. The number is high: a child that
// is forked moves files of its own to numbers behind those of its stdin, stdout and stderr,
// whatever is there (syscall.forkAndExecInChild1). It is 100 or more where that many files may be open,
// and otherwise in the upper half of those that may.
// It is the caller's to close.
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

// launch is that stage: args are the gate's number, the file, and argv.
func launch(args []string, stderr io.Writer) int {
	if len(args) < 3 {
		return 126
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return 126
	}
	unix.CloseOnExec(fd)
	if n, _ := os.NewFile(uintptr(fd), "gate").Read(make([]byte, 1)); n == 0 {
		return 126 // The keeper died.
	}
	if err := dieWithKeeper(); err != nil {
		fmt.Fprintln(stderr, "holdfast:", err)
		return 126
	}
	err = syscall.Exec(args[1], args[2:], os.Environ())
	hint := ""
	code := 126
	switch {
	case errors.Is(err, unix.ENOEXEC):
		hint = " (a script needs a first line such as #!/bin/sh, or use -c)"
	case errors.Is(err, unix.ENOENT):
		hint, code = " (if it is a script: is its interpreter there?)", 127
	}
	fmt.Fprintf(stderr, "holdfast: cannot run %s: %v%s\n", args[1], err, hint)
	return code
}

func (p *process) release() {
	if w, ok := p.gate.(io.Writer); ok {
		_, _ = w.Write([]byte{1}) // Fails only if the stage was killed.
	}
	p.gate.Close()
}

// reap collects what ended, and returns what happened to the command itself.
func (p *process) reap() (changes []change) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(p.waitFor(), &ws, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			p.childless = true
			return changes
		case pid == 0:
			return changes
		case pid != p.pid:
		case ws.Stopped():
			changes = append(changes, change{stopped: true, signal: int(ws.StopSignal())})
		case ws.Signaled():
			p.reaped = true
			changes = append(changes, change{signal: int(ws.Signal())})
		default:
			p.reaped = true
			changes = append(changes, change{code: ws.ExitStatus()})
		}
	}
}

func (p *process) signal(sig int) { p.toGroup(unix.Signal(sig)) }

// notify tells the command alone: USR1 would kill helpers that do not expect it.
func (p *process) notify() {
	if !p.reaped {
		_ = unix.Kill(p.pid, unix.SIGUSR1)
	}
}

// toGroup ignores errors: a group that is gone needs no signal, and kill tells
// what must not be signalled.
func (p *process) toGroup(sig unix.Signal) {
	if !p.reaped {
		_ = unix.Kill(-p.pid, sig)
	}
}

// takeTerminal gives a terminal whose foreground is the job to group.
func (p *process) takeTerminal(group int) {
	signal.Ignore(unix.SIGTTOU)
	t := tty.Open()
	t.Pass(p.pid, group)
	t.Close()
}
