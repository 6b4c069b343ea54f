package keeper

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Check returns an error if a keeper could not find the processes of its job. A /proc of another PID namespace does
// not show them, or has other numbers for them.
func Check() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("cannot find the processes of a job: %w (is /proc mounted?)", err)
	}
	own := strconv.Itoa(os.Getpid())
	if pids, ok := pidsOf(string(status)); ok {
		if len(pids) == 1 && pids[0] == own {
			return nil
		}
	} else if shown, err := os.Readlink("/proc/self"); err == nil && shown == own { // Linux before 4.1, or another kernel
		return nil
	}
	return errors.New("cannot find the processes of a job: /proc is that of another PID namespace " +
		"(mount one of this namespace: unshare --mount-proc, or mount -t proc proc /proc)")
}

// pidsOf returns the numbers of a process in the PID namespace of /proc and in the namespaces below, down to its own. It
// returns false if its status does not have them.
func pidsOf(status string) ([]string, bool) {
	for line := range strings.Lines(status) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return strings.Fields(numbers), true
		}
	}
	return nil, false
}
