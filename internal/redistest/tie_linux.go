package redistest

import (
	"os/exec"
	"syscall"
)

// tie makes the kernel end a process when this one ends, even if it is killed.
func tie(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
