//go:build unix

package demo

import (
	"os"
	"syscall"
)

// canPause reports whether this system can pause a process.
const canPause = true

func pauseProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
