package server

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// pause returns only when the kernel says that the process has stopped: its threads stop one by one, and may
// serve a request meanwhile.
func pause(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	var state string
	for limit := time.Now().Add(stopTimeout); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		// The name, in parentheses, may contain anything; the state follows it.
		state = string(stat[strings.LastIndexByte(string(stat), ')')+1:])
		if strings.HasPrefix(state, " T") {
			return nil
		}
	}
	return fmt.Errorf("process %d has not stopped %v after SIGSTOP: %.20s", pid, stopTimeout, state)
}

func resume(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }
