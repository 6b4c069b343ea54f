//go:build linux

package interop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/inputs"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// buildHoldfast builds the command once.
var buildHoldfast = sync.OnceValues(func() (program string, err error) {
	folder, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		return "", err
	}
	if err := inputs.In(filepath.Join("..", "..", "cmd", "holdfast")); err != nil {
		return "", err
	}
	program = filepath.Join(folder, "holdfast")
	if said, err := exec.Command("go", "build", "-o", program, "../../cmd/holdfast").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return program, nil
})

// conformance runs holdfast conformance with flags on a client in Python, and returns its exit code and output.
func conformance(t *testing.T, client string, flags ...string) (code int, said string) {
	t.Helper()
	python := setUp(t, "python")
	holdfast, err := buildHoldfast()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), holdfast, append(append([]string{"conformance"}, flags...), "--", python[0], client)...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// The client in examples/python, which was written from docs/PROTOCOL.md, passes all scenarios of holdfast conformance.
func TestTheClientInPythonConforms(t *testing.T) {
	t.Parallel()
	for _, bin := range binaries(t) {
		s := server.Start(t, bin)
		machine.Undisturbed(t, func() error {
			code, said := conformance(t, "../../examples/python/conform.py", "--server", s.Addr())
			if code != 0 || strings.Contains(said, "SKIPPED") {
				return fmt.Errorf("%s: exit code %d\n%s", bin.Name, code, said)
			}
			return nil
		})
	}
}

// wrongClients are copies of the client in examples/python, each with a mistake that the author of a client can make. scenario is
// the one of holdfast conformance that finds the mistake, and problem is what that says.
var wrongClients = []struct {
	mistake           string
	right, wrong      string // lines of holdfast.py
	scenario, problem string
}{
	{
		"a deadline counts from the reply",
		`reply.sent + pttl_ms / 1000 - drift(pttl_ms / 1000))
        if`, `clock() + pttl_ms / 1000 - drift(pttl_ms / 1000))
        if`,
		"slow-reply", `client 1 answers yes to "holds", and not no`,
	},
	{
		"no drift",
		`return seconds / 100 + 0.002`, `return 0`,
		"slow-reply", `client 1 answers yes to "holds", and not no`,
	},
	{
		"a lease that is over is not released",
		`            in_background(self.lock.take_back, self.w.token, self.w.member, self.w.tombstone_us)
`, ``,
		"slow-reply", `client 1 did not release the lock when its lease had ended`,
	},
	{
		"a renewal's answer that the lease is over is ignored",
		`        self.end(reply.word)
        in_background(lock.take_back, token, self.w.member, self.w.tombstone_us)
        return 0`, `        return lock.ttl_ms / 3000`,
		"theft", `after another program takes the lock by SET, client 1 still answers yes to holds`,
	},
	{
		"a renewal's answer that nobody has the lock is ignored",
		`        self.end(reply.word)
        in_background(lock.take_back, token`, `        if reply.word == "absent":
            return lock.ttl_ms / 3000
        self.end(reply.word)
        in_background(lock.take_back, token`,
		"rw-loss", `after another program deletes the lock, client 1 still answers yes to holds`,
	},
	{
		"no tombstones",
		`["", w.token, w.member, w.tombstone_us])
            except`, `["", w.token, w.member, 0])
            except`,
		"late-copy", `took the lock for a token that had ended: it went unanswered, and arrived after the release`,
	},
	{
		"not-after is always 0",
		`return self.server_time_us() + int((RETRY_TIMEOUT`, `return 0 * int((RETRY_TIMEOUT`,
		"late-copy", `took the lock for a token that had ended: it went unanswered, and arrived after the release`,
	},
	{
		"not-after is 0, tombstones stand",
		`args = [mode, w.token, self.ttl_ms, not_after_us, 1,`, `args = [mode, w.token, self.ttl_ms, 0, 1,`,
		"late-copy", `took the lock for a token that had ended: it went unanswered, and arrived after the tombstone's end`,
	},
	{
		"a token that is not wanted is not released",
		`        if w.owed:`, `        if False:`,
		"give-up", `in vain for 0 waiters in the lock's queue`,
	},
	{
		"a release does not name the member of the queue",
		`in_background(self.take_back, w.token, w.member, w.tombstone_us)`, `in_background(self.take_back, w.token, "", w.tombstone_us)`,
		"give-up", `in vain for 0 waiters in the lock's queue`,
	},
	{
		"a claim counts from its message",
		`left = claim - max(age, 0) - drift(since + claim)`, `left = claim - drift(claim)`,
		"slow-message", `client 1 says "granted \d+" after a grant whose claim had ended`,
	},
	{
		"a grant by message is never confirmed",
		`if grant.key != self.key or left < claim / 4 or not then_us - then_us % 1000 <= grant.fence <= then_us + since * 1e6 + 2e6:`, `if grant.key != self.key:`,
		"forged-grant", `the client believes a forged message`,
	},
	{
		"an acquire is sent before the subscription is confirmed",
		`self.c.subscribed.wait(1)`, `pass`,
		"subscription", `client 1 is in the queue before its subscription is confirmed`,
	},
	{
		"no new subscription after a disconnect",
		`                subscription.close()
`, `                return
`,
		"lost-subscription", `client 1 did not print granted within 15s`,
	},
	{
		"no look after a disconnect",
		`w.inbox.put(None)`, `pass`,
		"lost-subscription", `client 1 did not print granted within 15s`,
	},
	{
		"a silent subscription is never closed",
		`if asked or not self.has_subscription():`, `if not self.has_subscription():`,
		"lost-subscription", `client 2 did not print granted within 22s`,
	},
	{
		"a standby is ignored",
		`message = Standby(*map(int, rest.split(" ")))`, `return`,
		"standby", `client 1 did not print granted within 15s`,
	},
	{
		"grants of permits are not heard",
		`("grant", "rw", "sem")`, `("grant", "rw")`,
		"semaphore", `client 2 did not print granted within 15s`,
	},
	{
		"a permit has the weight of all",
		`return Lock(self, name, ttl, "sem", permits, 1)`, `return Lock(self, name, ttl, "sem", permits, permits)`,
		"semaphore", `client 1 says held, and not granted`,
	},
}

// holdfast conformance finds each wrong client, within three tries: some mistakes show only for a moment, and the machine may stand
// still then.
func TestWrongClientsInPythonAreFound(t *testing.T) {
	t.Parallel()
	setUp(t, "python")
	for _, c := range wrongClients {
		t.Run(c.mistake, func(t *testing.T) {
			t.Parallel()
			client := changedClient(t, c.right, c.wrong)
			machine.Undisturbed(t, func() error {
				for range 3 {
					code, said := conformance(t, client, "--only", c.scenario, "--answer", "15s")
					if code == 0 {
						continue
					}
					if code != 1 || !regexp.MustCompile(c.problem).MatchString(said) {
						return fmt.Errorf("exit code %d\n%s", code, said)
					}
					return nil
				}
				return fmt.Errorf("it passes %s", c.scenario)
			})
		})
	}
}

// Clients that work in another way that the protocol allows pass.
func TestOtherClientsInPythonConform(t *testing.T) {
	t.Parallel()
	setUp(t, "python")
	for _, c := range []struct {
		way             string
		before, changed string // lines of holdfast.py
		scenarios       string
	}{
		{"an acquire is sent once", `RETRY_TIMEOUT = 2.0, 3.0`, `RETRY_TIMEOUT = 2.0, 0.1`, "lost-reply,late-copy,slow-reply,outage"},
		{
			"each grant by message is confirmed", `return m and self.claimed(w, m)`, `return None`,
			"queue,slow-message,forged-grant,standby,lost-subscription,subscription,competition,semaphore",
		},
	} {
		t.Run(c.way, func(t *testing.T) {
			t.Parallel()
			client := changedClient(t, c.before, c.changed)
			machine.Undisturbed(t, func() error {
				if code, said := conformance(t, client, "--only", c.scenarios); code != 0 {
					return fmt.Errorf("exit code %d\n%s", code, said)
				}
				return nil
			})
		})
	}
}

// changedClient returns a copy of the client in examples/python in which some lines of holdfast.py are changed.
func changedClient(t *testing.T, before, changed string) (program string) {
	t.Helper()
	client, err := os.ReadFile("../../examples/python/holdfast.py")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(client), before); n != 1 {
		t.Fatalf("holdfast.py has these lines %d times:\n%s", n, before)
	}
	conform, err := os.ReadFile("../../examples/python/conform.py")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	checkout := t.TempDir()
	folder := filepath.Join(checkout, "examples", "python") // from which conform.py finds the scripts
	program = filepath.Join(folder, "conform.py")
	if err := errors.Join(
		os.MkdirAll(folder, 0o700), os.Symlink(docs, filepath.Join(checkout, "docs")), os.WriteFile(program, conform, 0o600),
		os.WriteFile(filepath.Join(folder, "holdfast.py"), []byte(strings.Replace(string(client), before, changed, 1)), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return program
}
