package demo

import (
	"os/exec"
	"syscall"
)

// dieWithThread makes the kernel kill the process when the demo dies: a paused one would not notice by itself.
func dieWithThread(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
