package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/machine"
)

// verdicts is what conformance -json reports.
type verdicts struct {
	OK       bool
	Passed   int
	Skipped  int
	Verdicts []struct{ Scenario, Problem string }
}

// judge runs conformance on that client with a flaw.
func judge(t *testing.T, flaw string, flags ...string) (code int, v verdicts, err error) {
	t.Helper()
	uses(t)
	program, err := os.Executable()
	if err != nil {
		return 0, v, err
	}
	cmd := exec.CommandContext(t.Context(), "conformance", append(append([]string{"-json"}, flags...), program, judgedArg, flaw)...)
	said, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		return 0, v, err
	}
	if err := json.Unmarshal(said, &v); err != nil {
		return code, v, fmt.Errorf("exit code %d, %q: %w", code, said, err)
	}
	return code, v, nil
}

// Holdfast's own client passes all scenarios on the embedded server, whether concurrent commands have connections of their own or share
// one. What a client does not say that it implements is neither passed nor failed.
func TestASoundClientConforms(t *testing.T) {
	t.Parallel()
	for flaw, least := range map[string]int{"none": 30, "multiplexed": 30, "mutexes": 10} {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			machine.Undisturbed(t, func() error {
				code, v, err := judge(t, flaw, "-for", "1s")
				skips := v.Skipped > 0
				if err == nil && (code != 0 || !v.OK || v.Passed+v.Skipped != len(v.Verdicts) || v.Passed < least || skips != (flaw == "mutexes")) {
					err = fmt.Errorf("exit code %d: %+v", code, v)
				}
				return err
			})
		})
	}
}

// A sound client may lose the lock once in the competition: that happens if the machine stands still.
func TestAClientMayLoseTheLock(t *testing.T) {
	t.Parallel()
	machine.Undisturbed(t, func() error {
		code, v, err := judge(t, "robbed", "-only", "competition", "-for", "500ms")
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d: %+v", code, v)
		}
		return err
	})
}

// Every scenario finds the clients that it is for.
func TestFlawedClientsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flaw, scenario, problem string }{
		{"plain", "value", `has a value of another form: mine`},
		{"greedy", "exclusion", `answers "granted 9000000000000000000" to "try \d+", and not held`},
		{"counts", "fences", `the fence 1 of the client's try follows`},
		{"greedy", "young-lock", `answers "granted 9000000000000000000" to "try \d+", and not held`},
		{"naive", "barging", `answers "granted 1" to "try \d+", and not held`},
		{"deletes", "hand-over", `does not hand the lock over`},
		{"polls", "queue", `in vain for 1 waiters in the lock's queue`},
		{"chatty", "quiet", `the client sent \d+ requests and \d+ PINGs`},
		{"unrenewed", "renewal", `answers no to "holds", and not yes`},
		{"believes", "theft", `client 1 still answers yes to holds`},
		{"deletes", "theft", `released a lock that another program has`},
		{"believes", "outage", `answers yes to "holds", and not no`},
		{"naive", "lost-reply", `takes its own lock for another's`},
		{"mute", "dead-waiter", `did not print granted within`},
		{"counts", "competition", `the fence 1 of .* follows`},
		{"unknown", "rw-sharing", `says that it implements rwlock; the words are rwmutex, semaphore`},
		{"alone", "semaphore", `says held, and not granted`},
		{"counts", "semaphore", `the fences of three permits are`},
		{"greedy", "semaphore", `answers "granted 9000000000000000000" to "try-permit \d+", and not held`},
		{"alone", "rw-sharing", `says held, and not granted`},
		{"deletes", "rw-sharing", `Holdfast's TryAcquire as a writer gets: <nil>`},
		{"shares", "rw-exclusion", `Holdfast's TryAcquire as a reader gets: <nil>`},
		{"counts", "rw-fences", `the fence 1 of the client's try-read follows`},
		{"greedy", "rw-queue", `answers "granted 9000000000000000000" to "try-read \d+", and not held`},
		{"polls", "rw-queue", `in vain for 1 waiters in the lock's queue`},
		{"chatty", "rw-quiet", `the client sent \d+ requests and \d+ PINGs`},
		{"unrenewed", "rw-renewal", `answers no to "holds", and not yes`},
		{"believes", "rw-outage", `answers yes to "holds", and not no`},
		{"mute", "rw-expiry", `did not print granted within`},
		{"hasty", "rw-expiry", `acquire-\w+ is granted to another client within [1-4]\.\d+s of the try-\w+ of a client that was killed`},
		{"shares", "rw-competition", `two had the lock at once|the fence \d+ of .* follows`},
		{"counts", "rw-competition", `the fence 1 of .* follows`},
	} {
		t.Run(c.flaw+" "+c.scenario, func(t *testing.T) {
			t.Parallel()
			tries := 1
			if strings.HasSuffix(c.scenario, "competition") || c.flaw == "hasty" {
				tries = 20 // the flaw shows only if clients meet, or in time
			}
			machine.Undisturbed(t, func() error {
				var code int
				var v verdicts
				var err error
				for n := 0; n == 0 || err == nil && v.OK && n < tries; n++ {
					code, v, err = judge(t, c.flaw, "-only", c.scenario, "-for", "500ms", "-answer", "5s")
				}
				switch {
				case err != nil:
					return err
				case code != 1 || v.OK || len(v.Verdicts) != 1 || !regexp.MustCompile(c.problem).MatchString(v.Verdicts[0].Problem):
					return fmt.Errorf("exit code %d: %+v", code, v)
				}
				return nil
			})
		})
	}
}
