package command

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Each command exits with 69 if no server answers, says which one, and shows no password. It retries for three seconds,
// so they all do so at once.
func TestNoServer(t *testing.T) {
	t.Parallel()
	const (
		gone    = "127.0.0.1:1" // where nobody listens
		refused = ` on 127\.0\.0\.1:1: server is unavailable: `
	)
	ran := filepath.Join(t.TempDir(), "ran")
	var all sync.WaitGroup
	for args, says := range map[string]string{
		"run job -- touch " + ran:                `^holdfast: reach "job"` + refused,
		"run -w 300ms job -- touch " + ran:       `server is unavailable`,
		"run -n -q job -- touch " + ran:          `server is unavailable`,
		"once job":                               `server is unavailable`,
		"elect job -- touch " + ran:              `^holdfast: reach "job"` + refused,
		"elect job --http :0":                    `server is unavailable`,
		"acquire -w 2s --ticket " + ran + " job": `^holdfast: reach "job" on 127\.0\.0\.1:1`,
		"latch job 2 reset":                      `127\.0\.0\.1:1`,
		"barrier job 2 wait":                     `server is unavailable`,
		"ls":                                     `^holdfast: list all locks` + refused,
		"ls orders/*":                            `^holdfast: list locks that match "orders/\*"` + refused,
		"ls orders":                              `^holdfast: reach "orders"` + refused,
		"show job":                               `server is unavailable`,
		"watch":                                  `^holdfast: watch all locks` + refused,
		"watch orders/*":                         `^holdfast: watch locks that match "orders/\*"` + refused,
		"ui --http 127.0.0.1:0":                  `^holdfast: list all locks` + refused,
		"break --grant k3v9x2ab job":             `server is unavailable`,
		"breaks":                                 `^holdfast: list breaks` + refused,
		"init":                                   `^holdfast: init` + refused,
		"resize job 2":                           `server is unavailable`,
		"doctor":                                 `server is unavailable`,
		"bench -for 1s":                          `server is unavailable`,
		"conformance -server " + gone + " true":  `^holdfast: server is unavailable: dial tcp 127\.0\.0\.1:1: connect`,
		"ui --http 127.0.0.1:0 --redis redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3": `^holdfast: list all locks: too few nodes answered as they should; 2 of 3 have to:` + refused,
	} {
		all.Go(func() {
			code, stdout, stderr := invoke(t, []string{"HOLDFAST_REDIS=redis://:" + canary + "@" + gone}, strings.Fields(args)...)
			if code != 69 || stdout != "" || !regexp.MustCompile(says).MatchString(stderr) {
				t.Errorf("%s: exit code %d, stdout %q, stderr %q; want 69, nothing, and %s", args, code, stdout, stderr, says)
			}
			if strings.Contains(stderr, canary) {
				t.Errorf("%s: it shows the password: %s", args, stderr)
			}
		})
	}
	all.Wait()
	expect.Err(t, "the command's file, or the ticket", expect.ErrOf(os.Stat(ran)), fs.ErrNotExist)
}

// If no sentinel knows the master's name, waiting does not help: the URL is wrong.
func TestNoSuchMaster(t *testing.T) {
	s := server.Alone(t)
	sentinel := (&redistest.Sentinel{Masters: map[string]string{"main": s.Addr()}}).Listen(t)
	url := "redis+sentinel://" + sentinel + "?master_name=mian&addr=" + s.Addr()
	code, _, stderr := invoke(t, []string{"HOLDFAST_REDIS=" + url}, "run", "--wait", "10m", "job", "--", "false")
	for _, want := range []string{sentinel + `: no master is called "mian"; there is "main"`, s.Addr() + ": a Redis server, not a sentinel", " (correct the master's name)"} {
		if code != 78 || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d, %q; want 78, and %q", code, stderr, want)
		}
	}
}

// If the server dies under a job, the last message says until when the lock lasts. The client does not try once more to release it.
func TestServerDiesUnderAJob(t *testing.T) {
	t.Parallel()
	const kept = `the lock was not released, and expires at \d\d:\d\d:\d\d: release "job" on \S+: server is unavailable: .*\n$`
	for flags, want := range map[string]struct {
		code int
		says string
	}{
		"-v -w 10m":                   {3, `holdfast: ` + kept},
		"-v --ttl 9s --kill-after 2s": {79, `could not be renewed in time; the command was ended; ` + kept},
	} {
		t.Run(flags, func(t *testing.T) {
			s := server.Alone(t)
			args := append(strings.Fields("run "+flags), "job", "--", "sh", "-c", "echo runs; read line; exit 3")
			cmd := command(t.Context(), []string{"HOLDFAST_REDIS=redis://" + s.Addr()}, args...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			in := expect.Of(cmd.StdinPipe()).OK(t)
			out := expect.Of(cmd.StdoutPipe()).OK(t)
			expect.OK(t, cmd.Start())
			expect.Err(t, "it did not begin", expect.ErrOf(bufio.NewReader(out).ReadString('\n')), nil)
			s.Stop()
			if want.code == 3 { // the job ends by itself
				_ = in.Close()
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != want.code || !regexp.MustCompile(want.says).MatchString(stderr.String()) {
				t.Errorf("exit code %d, %s; want %d, and %s", code, &stderr, want.code, want.says)
			}
			if strings.Contains(stderr.String(), "closing: ") {
				t.Errorf("it waited for the server once more: %s", &stderr)
			}
		})
	}
}

// A run that may wait outlasts an outage.
func TestWaitOutlastsAnOutage(t *testing.T) {
	s := server.Alone(t)
	s.Stop()
	cmd := command(t.Context(), []string{"HOLDFAST_REDIS=redis://" + s.Addr()}, "run", "--wait", "10m", "job", "--", "echo", "ran")
	said := expect.Of(cmd.StderrPipe()).OK(t)
	var out strings.Builder
	cmd.Stdout = &out
	expect.OK(t, cmd.Start())
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil || !strings.Contains(line, s.Addr()+": server is unavailable: ") || !strings.Contains(line, "; trying again for ") {
		t.Errorf("it says %q: %v", line, err)
	}
	s.Restart()
	if err := cmd.Wait(); err != nil || out.String() != "ran\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}
