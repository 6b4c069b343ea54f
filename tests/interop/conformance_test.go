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

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/inputs"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// buildConformance builds the program once.
var buildConformance = sync.OnceValues(func() (program string, err error) {
	folder, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return "", err
	}
	if err := inputs.In(filepath.Join("..", "..", "cmd", "holdfast")); err != nil {
		return "", err
	}
	program = filepath.Join(folder, "conformance")
	if said, err := exec.Command("go", "build", "-o", program, "../../cmd/holdfast/conformance").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return program, nil
})

// conformance runs that program with flags on a client in Python, and returns its exit code and output.
func conformance(t *testing.T, client string, flags ...string) (code int, said string) {
	t.Helper()
	return judge(t, []string{setUp(t, "python")[0], client}, flags...)
}

func judge(t *testing.T, client []string, flags ...string) (code int, said string) {
	t.Helper()
	program := expect.Of(buildConformance()).OK(t)
	cmd := exec.CommandContext(t.Context(), program, append(flags, client...)...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// The client in examples/python, which was written from docs/PROTOCOL.md, passes all scenarios of conformance.
func TestTheClientInPythonConforms(t *testing.T) {
	t.Parallel()
	for _, bin := range binaries(t) {
		s := server.Start(t, bin)
		machine.Undisturbed(t, func() error {
			code, said := conformance(t, "../../examples/python/conform.py", "-server", s.Addr())
			if code != 0 || strings.Contains(said, "SKIPPED") {
				return fmt.Errorf("%s: exit code %d\n%s", bin.Name, code, said)
			}
			return nil
		})
	}
}

// wrongClients are copies of the client in examples/python, each with a mistake that the author of a client can make. scenario is
// the one of conformance that finds the mistake, and problem is what that says.
var wrongClients = []struct {
	mistake           string
	right, wrong      string // lines of holdfast.py
	scenario, problem string
	scripted          bool // the client acquires free mutexes by script
}{
	{"a lock that is free is taken past those who wait",
		`if queues == 0 and seq < 1000`, `if seq < 1000`,
		"barging", `client 1 answers "granted \d+" to "try \d+", and not held`, false},
	{"a release does not mind the mark",
		`self.evaluate("batch_release", [key], [f"hf2:{token}:"]) == "freed"`, `self.rdb.delete(key)`,
		"hand-over", `client 1 does not hand the lock over`, false},
	{"a renewal does not write the fence",
		`lock.c.send(lock.family + "renew", lock.least_keys, ["", token, lock.ttl_ms, 0, self.fence])`,
		`Reply(f"renewed {lock.c.server_time_us()} {lock.ttl_ms}", clock()) if lock.c.rdb.pexpire(lock.key, lock.ttl_ms) else None`,
		"renewal", `the client says that its fence is \d+; after renewals the lock's value has 0`, false},
	{"a token of the free path goes on after it was not answered",
		`self.token, self.score = new_token(), score`, `self.token, self.score = lock.__dict__.setdefault("token", new_token()), score`,
		"lost-reply", `the client goes on with a token of the free path that went unanswered`, false},
	{"a token of the free path that was not answered is released once",
		`if unanswered and reply.word != "released":`, `if False:`,
		"late-copy", `an acquire keeps the lock for a token that has ended`, false},
	{"no drift",
		`return seconds / 100 + 0.002`, `return 0`,
		"slow-reply", `client 1 answers yes to "holds", and not no`, false},
	{"a lease that is over is not released",
		`            in_background(self.lock.take_back, self.w.token, self.w.member, self.w.tombstone_us)
`, ``,
		"slow-reply", `client 1 did not release the lock when its lease had ended`, false},
	{"a renewal's answer that the lease is over is ignored",
		`        self.end(reply.word)
        in_background(lock.take_back, token, self.w.member, self.w.tombstone_us)
        return 0`, `        return lock.ttl_ms / 3000`,
		"theft", `after another program takes the lock by SET, client 1 still answers yes to holds`, false},
	{"a renewal's answer that nobody has the lock is ignored",
		`        self.end(reply.word)
        in_background(lock.take_back, token`, `        if reply.word == "absent":
            return lock.ttl_ms / 3000
        self.end(reply.word)
        in_background(lock.take_back, token`,
		"rw-loss", `after another program deletes the lock, client 1 still answers yes to holds`, false},
	{"no tombstones",
		`["", w.token, w.member, w.tombstone_us])
            except`, `["", w.token, w.member, 0])
            except`,
		"late-copy", `took the lock for a token that had ended: it went unanswered, and arrived after the release`, true},
	{"not-after is 0, tombstones stand",
		`args = [mode, w.token, self.ttl_ms, not_after_us, 1,`, `args = [mode, w.token, self.ttl_ms, 0, 1,`,
		"late-copy", `took the lock for a token that had ended: it went unanswered, and arrived after the tombstone's end`, true},
	{"a release does not name the member of the queue",
		`in_background(self.take_back, w.token, w.member, w.tombstone_us)`, `in_background(self.take_back, w.token, "", w.tombstone_us)`,
		"give-up", `in vain for 0 waiters in the lock's queue`, false},
	{"a claim counts from its message",
		`left = claim - max(age, 0) - drift(since + claim)`, `left = claim - drift(claim)`,
		"slow-message", `client 1 says "granted \d+" after a grant whose claim had ended`, false},
	{"a grant by message is never confirmed",
		`if grant.key != self.key or left < claim / 4 or not then_us - then_us % 1000 <= grant.fence <= then_us + since * 1e6 + 2e6:`, `if grant.key != self.key:`,
		"forged-grant", `the client believes a forged message`, false},
	{"an acquire is sent before the subscription is confirmed",
		`self.c.subscribed.wait(1)`, `pass`,
		"subscription", `client 1 is in the queue before its subscription is confirmed`, false},
	{"no look after a disconnect",
		`w.inbox.put(None)`, `pass`,
		"lost-subscription", `client 1 did not print granted within 15s`, false},
	{"a silent subscription is never closed",
		`if asked or not self.has_subscription():`, `if not self.has_subscription():`,
		"lost-subscription", `client 2 did not print granted within 22s`, false},
	{"a standby is ignored",
		`message = Standby(*map(int, rest.split(" ")))`, `return`,
		"standby", `client 1 did not print granted within 15s`, false},
	{"grants of permits are not heard",
		`("grant", "rw", "sem")`, `("grant", "rw")`,
		"semaphore", `client 2 did not print granted within 15s`, false},
	{"a permit has the weight of all",
		`return Lock(self, name, ttl, "sem", permits, 1)`, `return Lock(self, name, ttl, "sem", permits, permits)`,
		"semaphore", `client 1 says held, and not granted`, false},
}

// conformance finds each wrong client, within three tries: some mistakes show only for a moment, and the machine may stand
// still then.
func TestWrongClientsInPythonAreFound(t *testing.T) {
	t.Parallel()
	setUp(t, "python")
	for _, c := range wrongClients {
		t.Run(c.mistake, func(t *testing.T) {
			t.Parallel()
			lines := []string{c.right, c.wrong}
			if c.scripted {
				lines = append(lines, freePath, byScript)
			}
			client := changedClient(t, lines...)
			machine.Undisturbed(t, func() error {
				for range 3 {
					code, said := conformance(t, client, "-only", c.scenario, "-answer", "15s")
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
		{"free mutexes are acquired by script", freePath, byScript, "value,exclusion,fences,barging,hand-over,renewal,lost-reply,late-copy,slow-reply,competition"},
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
				if code, said := conformance(t, client, "-only", c.scenarios); code != 0 {
					return fmt.Errorf("exit code %d\n%s", code, said)
				}
				return nil
			})
		})
	}
}

// These lines of holdfast.py say which mutexes it acquires by script: with the second, all.
const freePath, byScript = `if self.kind or self.key in c.contended:`, `if True:`

// changedClient returns a copy of the client in examples/python. lines are lines of holdfast.py, each followed by what replaces them.
func changedClient(t *testing.T, lines ...string) (program string) {
	t.Helper()
	client := expect.Of(os.ReadFile("../../examples/python/holdfast.py")).OK(t)
	for i := 0; i < len(lines); i += 2 {
		if n := strings.Count(string(client), lines[i]); n != 1 {
			t.Fatalf("holdfast.py has these lines %d times:\n%s", n, lines[i])
		}
	}
	conform := expect.Of(os.ReadFile("../../examples/python/conform.py")).OK(t)
	docs := expect.Of(filepath.Abs("../../docs")).OK(t)
	checkout := t.TempDir()
	folder := filepath.Join(checkout, "examples", "python") // from which conform.py finds the scripts
	program = filepath.Join(folder, "conform.py")
	if err := errors.Join(
		os.MkdirAll(folder, 0o700), os.Symlink(docs, filepath.Join(checkout, "docs")), os.WriteFile(program, conform, 0o600),
		os.WriteFile(filepath.Join(folder, "holdfast.py"), []byte(strings.NewReplacer(lines...).Replace(string(client))), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return program
}
