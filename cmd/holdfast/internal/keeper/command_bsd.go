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

// waitFor waits only for the command: this process may have other children.
func (c *command) waitFor() int { return c.pid }

// gone reports whether the process group is empty. Its members are not our children, so that nothing tells when that
// changes; gone therefore asks to be called again.
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

// terminate sends TERM, and continues stopped processes, so that they receive it. The group's number stays in use until
// its last member has ended.
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

// remaining knows only the group.
func (c *command) remaining() []int { return []int{-c.pid} }
