//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// compiled compiles a copy of the client in examples/typescript, and contend.ts beside it. It returns a function that says how to run one
// of the programs. lines are lines of holdfast.ts, each followed by what replaces them.
func compiled(t *testing.T, lines ...string) (program func(name string) []string) {
	t.Helper()
	node := setUp(t, "typescript")
	client := expect.Of(os.ReadFile("../../examples/typescript/holdfast.ts")).OK(t)
	for i := 0; i < len(lines); i += 2 {
		if n := strings.Count(string(client), lines[i]); n != 1 {
			t.Fatalf("holdfast.ts has these lines %d times:\n%s", n, lines[i])
		}
	}
	checkout := t.TempDir()
	folder := filepath.Join(checkout, "examples", "typescript") // from which conform.js finds the scripts
	expect.OK(t, errors.Join(
		os.MkdirAll(folder, 0o700),
		os.Symlink(expect.Of(filepath.Abs("../../docs")).OK(t), filepath.Join(checkout, "docs")),
		os.Symlink(node[1], filepath.Join(folder, "node_modules")),
		os.WriteFile(filepath.Join(folder, "holdfast.ts"), []byte(strings.NewReplacer(lines...).Replace(string(client))), 0o600),
		os.WriteFile(filepath.Join(folder, "readme.ts"), []byte(readme(t)), 0o600),
		os.WriteFile(filepath.Join(folder, "all.json"), []byte(`{"extends": "./tsconfig.json", "files": ["conform.ts", "contend.ts", "readme.ts"]}`), 0o600),
	))
	for _, file := range []string{"../../examples/typescript/conform.ts", "../../examples/typescript/package.json",
		"../../examples/typescript/tsconfig.json", "typescript/contend.ts"} {
		text := expect.Of(os.ReadFile(file)).OK(t)
		expect.OK(t, os.WriteFile(filepath.Join(folder, filepath.Base(file)), text, 0o600))
	}
	said, err := exec.CommandContext(t.Context(), "node", filepath.Join(node[1], "typescript/bin/tsc"), "-p", filepath.Join(folder, "all.json")).CombinedOutput()
	if err != nil {
		t.Fatalf("tsc: %v\n%s", err, said)
	}
	return func(name string) []string { return []string{node[0], filepath.Join(folder, "dist", name)} }
}

// readme returns the program in the client's README.md.
func readme(t *testing.T) string {
	t.Helper()
	_, program, _ := strings.Cut(string(expect.Of(os.ReadFile("../../examples/typescript/README.md")).OK(t)), "```ts\n")
	program, _, ok := strings.Cut(program, "```")
	if !ok {
		t.Fatal("README.md has no program in TypeScript")
	}
	return `import { Client, Lost } from "./holdfast.js";
declare const order: unknown;
declare function store(order: unknown, fence: number, options: { signal: AbortSignal }): Promise<void>;
` + program
}

// The client in examples/typescript, which was written from docs/PROTOCOL.md, passes all scenarios of conformance.
func TestTheClientInTypeScriptConforms(t *testing.T) {
	soak.Nightly(t)
	t.Parallel()
	client := compiled(t)("conform.js")
	for _, bin := range binaries(t) {
		s := server.Start(t, bin)
		machine.Undisturbed(t, func() error {
			code, said := judge(t, client, "-server", s.Addr())
			if code != 0 || strings.Contains(said, "SKIPPED") {
				return fmt.Errorf("%s: exit code %d\n%s", bin.Name, code, said)
			}
			return nil
		})
	}
}

// wrongTypeScript are mistakes in copies of the client in examples/typescript. scenario is the one of conformance that finds the mistake,
// and problem is what that says.
var wrongTypeScript = []struct {
	mistake           string
	right, wrong      string // lines of holdfast.ts
	scenario, problem string
}{
	{"no drift",
		`=> ms / 100 + 2;`, `=> 0 * ms;`,
		"slow-reply", `client 1 answers yes to "holds", and not no`},
	{"a lease that is over is not released",
		`    this.#bid.release().catch(() => {});
    this.#loss.abort`, `    this.#loss.abort`,
		"slow-reply", `client 1 did not release the lock when its lease had ended`},
	{"a renewal's answer that the lease is over is ignored",
		`if (word !== "renewed") return this.#lose(`, `if (word !== "renewed") return void (`,
		"theft", `after another program takes the lock by SET, client 1 still answers yes to holds`},
	{"a renewal's answer that nobody has the lock is ignored",
		`if (word !== "renewed") return this.#lose(`, `if (word === "absent") return; if (word !== "renewed") return this.#lose(`,
		"rw-loss", `after another program deletes the lock, client 1 still answers yes to holds`},
	{"no tombstones",
		`this.#member, this.#tombstone];`, `this.#member, 0];`,
		"late-copy", `took the lock for a token that had ended: it went unanswered, and arrived after the release`},
	{"not-after is 0, tombstones stand",
		`[mode, token, lock.ttl, notAfter, 1,`, `[mode, token, lock.ttl, 0, 1,`,
		"late-copy", `took the lock for a token that had ended: it went unanswered, and arrived after the tombstone's end`},
	{"a release does not name the member of the queue",
		`this.#member, this.#tombstone];`, `"", this.#tombstone];`,
		"give-up", `in vain for 0 waiters in the lock's queue`},
	{"a claim counts from its message",
		`claim - Math.max(since - (grant.now - now) / 1000, 0) - drift(since + claim);`, `claim - drift(claim);`,
		"slow-message", `client 1 says "granted \d+" after a grant whose claim had ended`},
	{"a grant by message is never confirmed",
		`credible && left >= claim / 4 ?`, `credible || left > 0 ?`,
		"forged-grant", `the client believes a forged message`},
	{"an acquire is sent before the subscription is confirmed",
		`      wait.answered = true;
      await subscription.ready`, `      wait.answered = true;
      void subscription.ready`,
		"subscription", `client 1 is in the queue before its subscription is confirmed`},
	{"no look after a disconnect",
		`        this.confirmed();
`, ``,
		"lost-subscription", `client 1 did not print granted within 15s`},
	{"a silent subscription is never closed",
		`if (!answers || `, `if (!answers && `,
		"lost-subscription", `client 2 did not print granted within 22s`},
	{"a standby is ignored",
		`/^hf2 standby `, `/^hf2 another `,
		"standby", `client 1 did not print granted within 15s`},
	{"grants of permits are not heard",
		`(?:grant|rw|sem)`, `(?:grant|rw)`,
		"semaphore", `client 2 did not print granted within 15s`},
	{"a permit has the weight of all",
		`["sem", permits, wanted]`, `["sem", permits, permits]`,
		"semaphore", `client 1 says held, and not granted`},
	{"a waiter polls",
		`pause = await this.#untilLook(reply, wait);`, `pause = Math.min(await this.#untilLook(reply, wait), 50);`,
		"quiet", `while it waited, the client sent \d+ requests`},
}

// conformance finds each wrong client, within three tries: some mistakes show only for a moment, and the machine may stand still then.
func TestWrongClientsInTypeScriptAreFound(t *testing.T) {
	soak.Nightly(t)
	t.Parallel()
	setUp(t, "typescript")
	for _, c := range wrongTypeScript {
		t.Run(c.mistake, func(t *testing.T) {
			t.Parallel()
			client := compiled(t, c.right, c.wrong)("conform.js")
			machine.Undisturbed(t, func() error {
				for range 3 {
					code, said := judge(t, client, "-only", c.scenario, "-answer", "15s")
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

// contest is a lock that processes of ours and of theirs want all the time.
type contest struct {
	kind   string
	lock   func(c *holdfast.Client, name string, turn int) (l *holdfast.Lock, share int) // as lockOf of contend.ts
	judged func(events []history.Event) []history.Violation
}

// everyone is the whole of a read-write lock; a reader's share is 1.
const everyone = 1000

var contests = []contest{
	{"mutex", func(c *holdfast.Client, name string, _ int) (*holdfast.Lock, int) { return c.Mutex(name), 0 }, history.Check},
	{"rw", func(c *holdfast.Client, name string, turn int) (*holdfast.Lock, int) {
		if turn%3 == 0 {
			return c.RWMutex(name).Writer(), 0
		}
		return c.RWMutex(name).Reader(), 1
	}, func(events []history.Event) []history.Violation {
		readers := func(a, b history.Event) bool { return a.Share != 0 && b.Share != 0 }
		return append(history.Crowding(events, everyone), history.SharedFences(events, true, readers)...)
	}},
	{"sem", func(c *holdfast.Client, name string, _ int) (*holdfast.Lock, int) {
		return c.Semaphore(name, 2).Permits(1), 1
	},
		func(events []history.Event) []history.Violation {
			return append(history.Crowding(events, 2), history.Twins(events)...)
		}},
}

// Processes in Go and in TypeScript want the same lock all the time. Whoever has it alone adds 1 to a counter.
func TestGoAndTypeScriptTakeTurns(t *testing.T) {
	soak.Nightly(t)
	t.Parallel()
	program := compiled(t)("contend.js")
	scripts := expect.Of(filepath.Abs("../../docs/scripts")).OK(t)
	for _, bin := range binaries(t) {
		s := server.Start(t, bin)
		for _, c := range contests {
			t.Run(bin.Name+" "+c.kind, func(t *testing.T) {
				rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
				t.Cleanup(func() { _ = rdb.Close() })
				machine.Undisturbed(t, func() error {
					expect.OK(t, rdb.FlushAll(t.Context()).Err())
					var theirs []*rival
					for range 2 {
						theirs = append(theirs, run(t, append(slices.Clone(program), s.Addr(), scripts, c.kind)))
					}
					return c.run(t, rdb, theirs, soak.Duration(t))
				})
			})
		}
	}
}

func (c contest) run(t *testing.T, rdb *redis.Client, theirs []*rival, last time.Duration) error {
	const workers, counter = 2, "counter"
	for _, r := range theirs {
		r.Say(t, fmt.Sprintf("contend %s %d %d %s", c.kind, workers, last.Milliseconds(), counter))
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var events []history.Event
	var failed error
	end := time.Now().Add(last)
	for process := range 2 {
		client := backend.New(t, nil, drivertest.Of(holdfastgoredis.NewDriver(rdb)))
		for n := range workers {
			wg.Go(func() {
				for turn := n; time.Now().Before(end); turn++ {
					e, err := c.turn(t.Context(), client, rdb, turn, counter)
					e.Process, e.Goroutine = process, n
					mu.Lock()
					events, failed = append(events, e), errors.Join(failed, err)
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
	}
	wg.Wait()
	ours := len(events)
	for _, r := range theirs {
		events = append(events, r.grants(t, c.kind, last)...)
		r.Kill()
	}
	alone := 0
	for i := range events {
		events[i].ID = uint64(i)
		if events[i].Share == 0 {
			alone++
		}
	}
	t.Logf("%d turns of ours, %d of theirs", ours, len(events)-ours)
	for _, v := range c.judged(events) {
		failed = errors.Join(failed, fmt.Errorf("%v", v))
	}
	if got, err := rdb.Get(t.Context(), counter).Int(); got != alone || err != nil && !errors.Is(err, redis.Nil) {
		failed = errors.Join(failed, fmt.Errorf("the counter shows %d (%w) after %d increments", got, err, alone))
	}
	if ours < 10 || len(events)-ours < 10 {
		failed = errors.Join(failed, fmt.Errorf("ours had %d turns, theirs %d", ours, len(events)-ours))
	}
	return failed
}

// turn takes the lock once.
func (c contest) turn(ctx context.Context, client *holdfast.Client, rdb *redis.Client, turn int, counter string) (e history.Event, err error) {
	l, share := c.lock(client, c.kind, turn)
	e = history.Event{Name: c.kind, Share: share, Asked: history.Now()}
	lease, err := l.Acquire(ctx)
	if err != nil {
		return e, err
	}
	e.Granted, e.Fence = history.Now(), lease.Fence()
	if share == 0 {
		err = count(ctx, rdb, counter)
	} else {
		time.Sleep(time.Millisecond)
	}
	e.Released = history.Now()
	e.Deadline = e.Released
	return e, errors.Join(err, lease.Release(ctx))
}

// grants returns what contend.js says of its turns.
func (r *rival) grants(t *testing.T, name string, last time.Duration) []history.Event {
	t.Helper()
	var events []history.Event
	for {
		line := r.line(t, "turn", last+hanging)
		switch {
		case line[0] == "done":
			return events
		case line[0] != "turn" || len(line) != 7:
			t.Fatalf("the program says %q", line)
		}
		var n [7]int64
		for i := 1; i < len(n); i++ {
			n[i] = number(t, line[i])
		}
		events = append(events, history.Event{
			Process: r.Cmd.Process.Pid, Goroutine: int(n[1]), Name: name, Share: int(n[2]), Fence: uint64(n[3]),
			Asked: n[4], Granted: n[5], Released: n[6], Deadline: n[6],
		})
	}
}
