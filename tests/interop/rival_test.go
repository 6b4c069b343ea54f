//go:build linux

package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// languages holds the result of setUp for each language.
var languages sync.Map

// setUp returns the command that runs a program in that language. It skips the test if something that this
// needs is not available, and fails it if the program does not compile.
func setUp(t *testing.T, language string) []string {
	t.Helper()
	type result struct {
		folder, reason string
		err            error
	}
	once, _ := languages.LoadOrStore(language, sync.OnceValue(func() result {
		ctx, cancel := context.WithTimeout(context.Background(), 7*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "./setup.sh", language)
		var reason bytes.Buffer
		cmd.Stderr = &reason
		folder, err := cmd.Output()
		return result{strings.TrimSpace(string(folder)), strings.TrimSpace(reason.String()), err}
	}))
	r := once.(func() result)()
	var exit *exec.ExitError
	if errors.As(r.err, &exit) && exit.ExitCode() == 3 {
		t.Skipf("SKIPPED, NOTHING TESTED WITH %s: %s", strings.ToUpper(language), r.reason)
	}
	if r.err != nil {
		t.Fatalf("setup.sh %s: %v\n%s", language, r.err, r.reason)
	}
	switch language {
	case "java":
		return []string{"java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", r.folder + "/classes:" + r.folder + "/lib/*", "Rival"}
	case "typescript":
		return []string{"node", r.folder + "/node_modules"}
	}
	return []string{r.folder + "/venv/bin/python", "python/rival.py"}
}

// rival is a program in another language, or another process of ours, that carries out a
// command a line and answers each with a line, a word and a time:
//
//	acquire TTL                       "granted T"
//	try TTL                           "granted T" or "held T"
//	release                           "released T", T being before it, or "refused T"
//	hammer THREADS MS TTL COUNTER     "turn THREAD ASKED GRANTED RELEASED" for each, then "done T"
//
// Anything else is an error.
type rival struct {
	*child.Dialogue
	command []string
}

// start starts a program with these arguments, and waits until it is ready.
func start(t *testing.T, program []string, form, addr, key string, poll time.Duration) *rival {
	t.Helper()
	return run(t, append(program[:len(program):len(program)], form, addr, key, strconv.FormatInt(poll.Milliseconds(), 10)))
}

func run(t *testing.T, command []string, env ...string) *rival {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	said := &bytes.Buffer{}
	cmd.Stderr = said
	r := &rival{child.Talk(t, cmd), command}
	t.Cleanup(func() {
		if r.Kill(); t.Failed() && said.Len() > 0 {
			t.Logf("%s said:\n%s", command[0], said)
		}
	})
	expect.Equal(t, "the program says", r.line(t, "ready", starting)[0], "ready")
	return r
}

// starting and hanging are how long a program may take to start, and to answer: virtual machines and
// interpreters start slowly on a busy machine.
const (
	starting = 3 * time.Minute
	hanging  = time.Minute
)

// line waits for a line, far longer than anything that works takes.
func (r *rival) line(t *testing.T, what string, within time.Duration) []string {
	t.Helper()
	return strings.Fields(r.Hear(t, what, within))
}

// answer waits for an answer, which must be that word, and returns its time.
func (r *rival) answer(t *testing.T, want string) int64 {
	t.Helper()
	line := r.line(t, want, hanging)
	if line[0] != want {
		t.Fatalf("the answer is %q, not %q", line, want)
	}
	if len(line) == 1 {
		return 0
	}
	return number(t, line[1])
}

func (r *rival) expect(t *testing.T, want, command string) int64 {
	t.Helper()
	r.Say(t, command)
	return r.answer(t, want)
}

// hammer makes the program add to a counter. turns returns what it did.
func (r *rival) hammer(t *testing.T, threads int, last time.Duration, counter string) {
	t.Helper()
	r.Say(t, fmt.Sprintf("hammer %d %d 60000 %s", threads, last.Milliseconds(), counter))
}

func (r *rival) turns(t *testing.T, last time.Duration) []history.Event {
	t.Helper()
	var events []history.Event
	for {
		line := r.line(t, "turn", last+hanging)
		switch {
		case line[0] == "done":
			return events
		case line[0] != "turn" || len(line) != 5:
			t.Fatalf("the program says %q", line)
		}
		e := history.Event{
			ID:        uint64(len(events)),
			Process:   r.Cmd.Process.Pid,
			Goroutine: int(number(t, line[1])),
			Name:      key,
			Asked:     number(t, line[2]),
			Granted:   number(t, line[3]),
			Released:  number(t, line[4]),
		}
		e.Deadline = e.Released
		events = append(events, e)
	}
}

func number(t *testing.T, digits string) int64 {
	t.Helper()
	return expect.Of(strconv.ParseInt(digits, 10, 64)).OK(t)
}

// roleVariable makes the test binary a holder instead of running tests.
const roleVariable = "HOLDFAST_TEST_ROLE"

// startHolder starts a process of ours that holds the lock until it is killed.
func startHolder(t *testing.T, on *table, ttl time.Duration) *rival {
	t.Helper()
	r := run(t, []string{os.Args[0], on.name, on.nodes[0].Addr(), ttl.String()}, roleVariable+"=hold")
	r.answer(t, "granted")
	return r
}

// hold is what that process does.
func hold(args []string) {
	name, addr := args[0], args[1]
	ttl, err := time.ParseDuration(args[2])
	if err != nil {
		panic(err)
	}
	c, err := holdfastgoredis.New(redis.NewClient(&redis.Options{Addr: addr}), &holdfast.Config{CommandTimeout: 4 * time.Second})
	if err != nil {
		panic(err)
	}
	for _, f := range forms {
		if f.name != name {
			continue
		}
		fmt.Println("ready")
		if _, err := f.ours(c, key, holdfast.TTL(ttl)).Acquire(context.Background()); err != nil {
			panic(err)
		}
		fmt.Println("granted", history.Now())
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}
