package command

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A keeper and a launcher run before packages are initialized that only the command needs.
func TestKeepersStartBeforeOtherPackages(t *testing.T) {
	t.Parallel()
	uses(t)
	for arg, later := range map[string]bool{"version": true, "__keep": false, "__launch": false} {
		cmd := exec.CommandContext(t.Context(), "holdfast", arg)
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		said, _ := cmd.CombinedOutput() // without further arguments, keepers and launchers fail
		for _, pkg := range []string{"net", "net/http", "github.com/redis/go-redis/v9"} {
			if strings.Contains(string(said), "init "+pkg+" @") != later {
				t.Errorf("holdfast %s initializes %s: %v, want %v\n%s", arg, pkg, !later, later, said)
			}
		}
		if !strings.Contains(string(said), "init os @") {
			t.Errorf("holdfast %s traces nothing:\n%s", arg, said)
		}
	}
}
