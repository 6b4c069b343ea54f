package keeper

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Check reports why a job could not be kept here, or nil. A /proc of another PID namespace does not show
// the processes of the job, or shows them under other numbers.
func Check() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("the processes of a job cannot be found: %w (is /proc mounted?)", err)
	}
	own := strconv.Itoa(os.Getpid())
	if numbers, ok := pidsOf(string(status)); ok {
		if len(numbers) == 1 && numbers[0] == own {
			return nil
		}
	} else if shown, err := os.Readlink("/proc/self"); err == nil && shown == own { // Linux before 4.1, or another kernel
		return nil
	}
	return errors.New("the processes of a job cannot be found: /proc is that of another PID namespace " +
		"(mount one of this namespace: unshare --mount-proc, or mount -t proc proc /proc)")
}

// pidsOf returns the numbers of a process in the PID namespace of /proc and in those below it, down to its
// own, and whether its status tells them.
func pidsOf(status string) ([]string, bool) {
	for line := range strings.Lines(status) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return strings.Fields(numbers), true
		}
	}
	return nil, false
}
