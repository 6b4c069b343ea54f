//go:build unix && !linux

package keeper

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func self() (string, error) { return os.Executable() }

func jobAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// dieWithKeeper does nothing: there is no such thing here.
func dieWithKeeper() error { return nil }

// waitFor waits for the command alone: this process may have other children.
func (p *process) waitFor() int { return p.pid }

// empty reports whether the process group is. Its members are not our children,
// so that nobody tells when it changes: empty asks to be asked again.
func (p *process) empty() bool {
	if !p.reaped {
		return false
	}
	if unix.Kill(-p.pid, 0) == unix.ESRCH {
		return true
	}
	time.AfterFunc(20*time.Millisecond, func() {
		select {
		case p.changed <- unix.SIGCHLD:
		default:
		}
	})
	return false
}

// terminate sends TERM, and wakes what is stopped, so that it hears. The group
// outlives its leader: its number is in use until the last member ends.
func (p *process) terminate() {
	_ = unix.Kill(-p.pid, unix.SIGTERM)
	_ = unix.Kill(-p.pid, unix.SIGCONT)
}

func (p *process) kill() (denied []int) {
	if unix.Kill(-p.pid, unix.SIGKILL) == unix.EPERM && !p.reaped {
		return []int{p.pid}
	}
	return nil
}

// left knows the group only.
func (p *process) left() []int { return []int{-p.pid} }
