// Package command tests the holdfast command as its users run it: the program itself, its exit
// codes, what it prints, and what becomes of the jobs that it started.
package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// TestMain builds holdfast and puts it first in PATH.
func TestMain(m *testing.M) {
	backend.AtOnce(4) // most of each is waiting
	os.Exit(withHoldfast(m))
}

func withHoldfast(m *testing.M) int {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir, ".")
	if raceEnabled {
		build.Args = slices.Insert(build.Args, 2, "-race")
	}
	build.Dir = filepath.Join("..", "..", "cmd", "holdfast")
	if said, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%s: %v\n%s", build, err, said))
	}
	if err := os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH")); err != nil {
		panic(err)
	}
	return m.Run()
}

// TestScripts runs testdata/*.txtar, which show every exit code and what is said.
func TestScripts(t *testing.T) {
	closed := server.Start(t, server.One(t), server.Conf("requirepass", "canary-7531"),
		server.Conf("user", "limited on >limited-7531 ~* &* +@all -set -eval -evalsha -script"))
	evicting := server.Start(t, server.One(t), server.Conf("maxmemory", "100mb"), server.Conf("maxmemory-policy", "volatile-lru"))
	safe := server.Start(t, server.One(t), server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"))
	var nodes []string
	for range 3 {
		nodes = append(nodes, server.Start(t, server.One(t)).Addr())
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			// Its own, so that no script meets another's locks.
			open := server.Start(t, server.One(t))
			env.Values["open"] = open
			env.Setenv("SERVER", open.Addr())
			env.Setenv("CLOSED", closed.Addr())
			env.Setenv("EVICTING", evicting.Addr())
			env.Setenv("SAFE", safe.Addr())
			for i, addr := range nodes {
				env.Setenv("NODE"+strconv.Itoa(i+1), addr)
			}
			env.Setenv("HOLDFAST_REDIS", "redis://"+open.Addr())
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"await":  await,
			"exited": exited,
			"said":   said,
			"redis": func(ts *testscript.TestScript, _ bool, args []string) {
				words := make([]any, len(args))
				for i, a := range args {
					words[i] = a
				}
				reply, err := ts.Value("open").(*server.Server).Do(words...)
				ts.Check(err)
				ts.Logf("%v", reply)
			},
		},
	})
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

// await waits for files to appear: await FILE...
func await(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		until(ts, "no file "+file, func() bool {
			_, err := os.Stat(ts.MkAbs(file))
			return err == nil
		})
	}
}

// exited waits for an exit code to be written to a file, which a shell makes before it writes: exited FILE
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

// until waits for something to become true.
func until(ts *testscript.TestScript, otherwise string, ok func() bool) {
	for limit := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			ts.Fatalf("%s", otherwise)
		}
	}
}
