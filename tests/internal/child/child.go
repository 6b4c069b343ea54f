// Package child starts processes that do not outlive the test that started them, even if the test is killed.
package child

import (
	"os/exec"
	"runtime"
	"sync"
)

// Start starts cmd as cmd.Start does. On Linux the kernel kills it with SIGKILL when this process ends for any
// reason, and an interrupt typed at a terminal does not reach it. Elsewhere only the test's own cleanup ends
// it.
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

// starter starts the commands, on a thread that lives as long as the process: the kernel sends the signal when
// the thread that forked ends, and the Go runtime may end idle threads at any time (golang/go#27505).
func starter() {
	runtime.LockOSThread()
	for s := range starts {
		s.result <- s.cmd.Start()
	}
}
