// Package command tests the holdfast command as its users run it: the program itself, its exit codes, its
// output, and how the jobs that it started end. It also tests the programs beside it, bench and conformance.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/inputs"
	"github.com/holdfast-go/holdfast/tests/internal/race"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// TestMain builds holdfast, bench and conformance and puts them first in PATH, with a program that prints the grant id of a lock's holder, unless this process
// is a client that conformance judges.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == judgedArg {
		os.Exit(judged(os.Args[2], os.Args[3], os.Args[4]))
	}
	backend.AtOnce(16) // the tests mostly wait
	heed(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	os.Exit(withHoldfast(m))
}

// heed makes the processes that tests start heed signals that they would inherit as ignored, as those in the background of a
// script and under nohup do. This process goes on ignoring them.
func heed(all ...os.Signal) {
	for _, sig := range all {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// withHoldfast builds it beside the test's own program, in the folder that the go command removes even if it is
// interrupted, or if the tests time out.
func withHoldfast(m *testing.M) int {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(self), "holdfast")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir, ".", "./bench", "./conformance")
	if race.Detector {
		build.Args = slices.Insert(build.Args, 2, "-race")
	}
	build.Dir = source
	if said, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%s: %v\n%s", build, err, said))
	}
	grant := "#!/bin/sh\nholdfast show --json \"$@\" | sed -n 's/.*\"grant\":\"\\([^\"]*\\)\".*/\\1/p'\n"
	if err := os.WriteFile(filepath.Join(dir, "grant"), []byte(grant), 0o700); err != nil {
		panic(err)
	}
	if err := os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH")); err != nil {
		panic(err)
	}
	return m.Run()
}

// hang is how long a test waits before it fails. Nothing that works takes so long, and failures take longer.
const hang = time.Minute

// long marks a test that takes long, or loads the machine. It runs in parallel with others.
func long(t *testing.T) {
	t.Helper()
	soak.Nightly(t)
	t.Parallel()
}

// source is the program's module.
var source = filepath.Join("..", "..", "cmd", "holdfast")

// Every test that runs holdfast calls uses, so that the go command does not reuse a cached result after the program has changed.
func uses(t testing.TB) {
	t.Helper()
	expect.OK(t, sources())
}

var sources = sync.OnceValue(func() error { return inputs.In(source) })

// command returns holdfast, or the program beside it that args begin with, with no way to a server other than env.
func command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	program := "holdfast"
	if args[0] == "bench" || args[0] == "conformance" {
		program, args = args[0], args[1:]
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "HOLDFAST_REDIS=") || strings.HasPrefix(kv, "REDIS_URL=")
	}), append(env, "GORACE=atexit_sleep_ms=0")...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// invoke runs such a command to its end. The code of one that was killed is -1.
func invoke(t testing.TB, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	uses(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*hang)
	defer cancel()
	cmd := command(ctx, env, args...)
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Errorf("%q: %v: %s%s", args, err, &out, &said)
		return -1, "", ""
	}
	return cmd.ProcessState.ExitCode(), out.String(), said.String()
}

// TestScripts runs testdata/*.txtar, which show every exit code and message.
func TestScripts(t *testing.T) {
	closed := server.Alone(t, server.Conf("requirepass", "canary-7531"),
		server.Conf("user", "limited on >limited-7531 ~* &* +@all -set -eval -evalsha -script"))
	evicting := server.Start(t, server.One(t), server.Conf("maxmemory", "100mb"), server.Conf("maxmemory-policy", "volatile-lru"))
	safe := server.Start(t, server.One(t), server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"))
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts: ", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Each script has a server of its own, so that it meets no locks of another.
			open := server.Start(t, server.One(t))
			var nodes []string
			for range 3 {
				if name == "quorum" || name == "bench" || name == "ticket_server" { // these scripts name the servers
					nodes = append(nodes, server.Start(t, server.One(t)).Addr())
				}
			}
			script(t, file, open, func(env *testscript.Env) {
				env.Setenv("SERVER", open.Addr())
				env.Setenv("CLOSED", closed.Addr())
				env.Setenv("EVICTING", evicting.Addr())
				env.Setenv("SAFE", safe.Addr())
				for i, addr := range nodes {
					env.Setenv("NODE"+strconv.Itoa(i+1), addr)
				}
				env.Setenv("HOLDFAST_REDIS", "redis://"+open.Addr())
				env.Setenv("GORACE", "atexit_sleep_ms=0")
				for name, owner := range map[string]string{ // entries of a queue, which have line feeds
					"WAITER1": `{"o":"first","p":1}`, "WAITER2": `{"o":"second"}`,
					"CANDIDATE1": `{"o":"a","k":"election"}`, "CANDIDATE2": `{"o":"b","k":"election"}`, "CANDIDATE3": `{"o":"c","k":"election"}`,
				} {
					env.Setenv(name, fmt.Sprintf("token of %s\n30000\nnowhere\n%s", name, owner))
				}
			})
		})
	}
}

// script runs one script. Its command redis talks to the server.
func script(t testing.TB, file string, redis *server.Server, setup func(*testscript.Env)) {
	t.Helper()
	uses(t)
	s := &scripting{TB: t}
	testscript.RunT(s, testscript.Params{
		Files:    []string{file},
		Deadline: time.Now().Add(5 * hang),
		Setup: func(env *testscript.Env) error {
			s.work = env.WorkDir
			setup(env)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"answers": answered,
			"await":   await,
			"exited":  exited,
			"said":    said,
			"holdfast": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(ts.Exec("holdfast", args...))
			},
			"redis": func(ts *testscript.TestScript, _ bool, args []string) {
				words := make([]any, len(args))
				for i, a := range args {
					words[i] = a
				}
				reply, err := redis.Do(words...)
				ts.Check(err)
				ts.Logf("%v", reply)
			},
		},
	})
}

// scripting is a test with one script, in the form that testscript needs.
type scripting struct {
	testing.TB
	work   string // its folder
	failed bool
}

func (s *scripting) Run(_ string, f func(testscript.T)) { f(s) }
func (s *scripting) Parallel()                          {}
func (s *scripting) Verbose() bool                      { return testing.Verbose() }

// FailNow ends everything that the script has started and that nobody else ends any more: otherwise testscript
// would wait for it.
func (s *scripting) FailNow() {
	s.failed = true
	if s.work != "" {
		for _, pid := range processesWith("WORK=" + s.work) {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	}
	s.TB.FailNow()
}

// processesWith lists the processes with this variable in their environment, if the system shows that.
func processesWith(variable string) (pids []int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + name + "/environ")
		if err == nil && strings.Contains("\x00"+string(env), "\x00"+variable+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Log gets the log of the script, after FailNow if it failed.
func (s *scripting) Log(args ...any) {
	if s.failed {
		s.Error(args...)
	} else {
		s.TB.Log(args...)
	}
}

// exits runs a command and checks its exit code: exits CODE COMMAND...
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// answered is exits for a command that waits for an answer for a second only, and exits with 69 if a machine that stands still
// gives it none in that time. It is run again then.
func answered(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, "no answer for "+strings.Join(args[1:], " "), func() bool {
		var exit *exec.ExitError
		err := ts.Exec(args[1], args[2:]...)
		got := 0
		if errors.As(err, &exit) {
			got = exit.ExitCode()
		} else {
			ts.Check(err)
		}
		if got != 69 && strconv.Itoa(got) != args[0] {
			ts.Fatalf("exit code %d, want %s", got, args[0])
		}
		return got != 69
	})
}

// await waits for files to appear: await FILE...
func await(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		until(ts, "no file "+file, func() bool {
			_, err := os.Stat(ts.MkAbs(file))
			return err == nil
		})
	}
}

// exited waits until an exit code is written to a file. A shell creates the file before it writes: exited FILE
func exited(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, "no exit code in "+args[0], func() bool {
		text, _ := os.ReadFile(ts.MkAbs(args[0]))
		return len(text) > 0
	})
}

// said waits for a text to appear in a file: said TEXT FILE
func said(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, "not said: "+args[0], func() bool {
		text, _ := os.ReadFile(ts.MkAbs(args[1]))
		return strings.Contains(string(text), args[0])
	})
}

// until waits until ok returns true.
func until(ts *testscript.TestScript, otherwise string, ok func() bool) {
	for limit := time.Now().Add(hang); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			ts.Fatalf("%s", otherwise)
		}
	}
}
