package command

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// The processes of the demo read the password from a pipe, and do not show it.
func TestWorkersOfTheDemoDoNotCarryThePassword(t *testing.T) {
	t.Parallel()
	url, _ := demoOn(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	mark := "DIR=" + t.TempDir()
	cmd := command(ctx, []string{"HOLDFAST_REDIS=" + url}, "demo", "--redis", "env", "--workers", "3")
	cmd.Env = append(cmd.Env, mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	backend.Eventually(t, "three workers are there", func() bool {
		for _, pid := range processesWith(mark) {
			// Until it executes the worker's command, a forked process shows the memory of its parent.
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err != nil || pid == cmd.Process.Pid || string(line) == string(ours) {
				continue
			}
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if err != nil {
				continue // it has ended
			}
			seen++
			for entry := range strings.SplitSeq(string(text), "\x00") {
				if strings.Contains(entry, canary) {
					t.Errorf("process %d carries the password: %q", pid, entry)
				}
			}
		}
		return seen >= 3
	})
	cancel()
	_ = cmd.Wait()
}
