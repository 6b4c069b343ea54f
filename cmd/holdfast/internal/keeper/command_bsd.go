//go:build unix && !linux

package keeper

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func self() (string, error) { return os.Executable() }

func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// waitFor returns the process id for wait4: that of the command, because this process may have other children.
func (c *command) waitFor() int { return c.pid }

// gone reports whether the process group is empty. Its members are not children of this process, whose end SIGCHLD would announce, so gone
// makes changed report a change again, to be called once more.
func (c *command) gone() bool {
	if !c.reaped {
		return false
	}
	if unix.Kill(-c.pid, 0) == unix.ESRCH {
		return true
	}
	time.AfterFunc(20*time.Millisecond, func() {
		select {
		case c.sigs <- unix.SIGCHLD:
		default:
		}
	})
	return false
}

// terminate sends TERM, and continues stopped processes, so that they receive it. The group's number stays in use until its last member has
// ended.
func (c *command) terminate() {
	_ = unix.Kill(-c.pid, unix.SIGTERM)
	_ = unix.Kill(-c.pid, unix.SIGCONT)
}

func (c *command) kill() (denied []int) {
	if unix.Kill(-c.pid, unix.SIGKILL) == unix.EPERM && !c.reaped {
		return []int{c.pid}
	}
	return nil
}

// remaining returns only the group, as a negative number.
func (c *command) remaining() []int { return []int{-c.pid} }
