package keeper

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

func self() (string, error) { return "/proc/self/exe", nil }

// jobAttr makes the command a group leader that dies with the thread that
// starts it.
func jobAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// dieWithKeeper is for the stage that becomes the command. The kernel keeps the
// parent-death signal by thread, jobAttr set that of the first one, and what exec
// leaves is that of the thread that calls it, which need not be the first.
func dieWithKeeper() error {
	runtime.LockOSThread() // until exec
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("ask for a signal at the keeper's death: %w", err)
	}
	return nil
}

// waitFor waits for any child: orphans of the job are ours, and nothing else is.
func (p *process) waitFor() int { return -1 }

func (p *process) empty() bool { return p.childless }

// terminate sends TERM to the group and to what left the group, and wakes what
// is stopped, so that it hears.
func (p *process) terminate() {
	p.toGroup(unix.SIGTERM)
	p.toGroup(unix.SIGCONT)
	for _, d := range descendants(os.Getpid()) {
		if d.group != p.pid || p.reaped {
			_ = unix.Kill(d.pid, unix.SIGTERM)
			_ = unix.Kill(d.pid, unix.SIGCONT)
		}
	}
}

// kill sends KILL to the group and to every child. Children of those that die
// become ours, and are for the next call. It returns what may not be killed.
func (p *process) kill() (denied []int) {
	p.toGroup(unix.SIGKILL)
	for _, d := range descendants(os.Getpid()) {
		// Only a child's pid cannot become another process's meanwhile.
		if d.parent == os.Getpid() && unix.Kill(d.pid, unix.SIGKILL) == unix.EPERM {
			denied = append(denied, d.pid)
		}
	}
	return denied
}

// left lists what the command left running.
func (p *process) left() (pids []int) {
	for _, d := range descendants(os.Getpid()) {
		if !d.zombie {
			pids = append(pids, d.pid)
		}
	}
	return pids
}
