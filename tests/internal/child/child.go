// Package child starts processes that do not outlive the test that started
// them, even when that is killed.
package child

import (
	"os/exec"
	"runtime"
	"sync"
)

// Start starts cmd as cmd.Start does. On Linux the kernel kills it with SIGKILL
// when this process ends, in whatever way, and an interrupt typed at a terminal does
// not reach it; elsewhere only the test's own cleaning up ends it.
func Start(cmd *exec.Cmd) error {
	tie(cmd)
	startOnce.Do(func() { go starter() })
	result := make(chan error)
	starts <- start{cmd, result}
	return <-result
}

type start struct {
	cmd    *exec.Cmd
	result chan<- error
}

var (
	starts    = make(chan start)
	startOnce sync.Once
)

// starter starts the commands, on a thread that lives as long as the process:
// the kernel sends the signal at the end of the thread that forked, and the Go
// runtime ends idle threads when it likes (golang/go#27505).
func starter() {
	runtime.LockOSThread()
	for s := range starts {
		s.result <- s.cmd.Start()
	}
}
