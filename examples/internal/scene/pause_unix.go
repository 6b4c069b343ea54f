//go:build unix

package scene

import (
	"os"
	"syscall"
)

// canPause reports whether this system can pause and resume a process.
const canPause = true

func pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
