package demo

import (
	"os/exec"
	"syscall"
)

// tie has the kernel kill a worker when the demo dies, in whatever way: a paused
// one would not notice.
func tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
