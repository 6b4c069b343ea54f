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

// The processes of the demo do not carry the password, which they read from a pipe.
func TestWorkersOfTheDemoDoNotCarryThePassword(t *testing.T) {
	t.Parallel()
	url, _ := demoOn(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	mark := "DIR=" + t.TempDir()
	cmd := command(ctx, url, "demo", "--redis", "env", "--workers", "3")
	cmd.Env = append(cmd.Env, mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := 0
	backend.Eventually(t, "three workers are there", func() bool {
		for _, pid := range processesWith(mark) {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if err != nil || pid == cmd.Process.Pid {
				continue // or it has gone
			}
			seen++
			if strings.Contains(string(text), canary) {
				t.Errorf("process %d carries the password: %q", pid, text)
			}
		}
		return seen >= 3
	})
	cancel()
	_ = cmd.Wait()
}
