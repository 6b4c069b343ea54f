package keeper

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func self() (string, error) { return "/proc/self/exe", nil }

// commandAttr makes the command the leader of a process group, and makes it die with the thread that starts it.
func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// waitFor returns the process id for wait4: -1 for any child, because all children of this process belong to the job.
func (c *command) waitFor() int { return -1 }

func (c *command) gone() bool { return c.childless }

// terminate sends TERM to the group, and to processes that have left it. It continues stopped processes, so that they receive the signal.
func (c *command) terminate() {
	c.toGroup(unix.SIGTERM)
	c.toGroup(unix.SIGCONT)
	for _, d := range descendants(os.Getpid()) {
		if d.group != c.pid || c.reaped {
			_ = unix.Kill(d.pid, unix.SIGTERM)
			_ = unix.Kill(d.pid, unix.SIGCONT)
		}
	}
}

// kill sends KILL to the group and to every child, and returns the children that it may not kill. Children of a process that dies become
// children of this process, for the next call.
func (c *command) kill() (denied []int) {
	c.toGroup(unix.SIGKILL)
	for _, d := range descendants(os.Getpid()) {
		// Only a child's number cannot be reused for another process meanwhile.
		if d.parent == os.Getpid() && unix.Kill(d.pid, unix.SIGKILL) == unix.EPERM {
			denied = append(denied, d.pid)
		}
	}
	return denied
}

func (c *command) remaining() (pids []int) {
	for _, d := range descendants(os.Getpid()) {
		if !d.zombie {
			pids = append(pids, d.pid)
		}
	}
	return pids
}
