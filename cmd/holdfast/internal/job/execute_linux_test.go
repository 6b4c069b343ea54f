package job

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// TestMain makes the test binary a keeper or a launcher if it is started as one. If EXIT names a file, a keeper exits only
// once that file exists.
func TestMain(m *testing.M) {
	if code, ok := keeper.Main(os.Args[1:]); ok {
		for exit := os.Getenv("EXIT"); exit != "" && !exists(exit); time.Sleep(time.Millisecond) {
		}
		os.Exit(code)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // a keeper's
	os.Exit(m.Run())
}

// held returns a lock, and a lease of it.
func held(t *testing.T) (*holdfast.Lock, *holdfast.Lease) {
	t.Helper()
	lock := holdfasttest.New(t).Mutex("job")
	lease, err := lock.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lock, lease
}

// jobOf returns a run, and a job with this script.
func jobOf(t *testing.T, script string, policy keeper.Policy) (*Run, *Job) {
	t.Helper()
	r := &Run{
		Name: "job", Console: console.New(io.Discard, console.Quiet), Servers: &connect.Servers{},
		Streams: Streams{os.Stdin, os.Stdout, os.Stderr},
	}
	j := &Job{TTL: 15 * time.Second, Shell: true, LostCode: exitcode.Lost, Spec: keeper.Spec{
		Args: []string{script}, OnLost: policy, KillAfter: 50 * time.Millisecond,
	}}
	if exit := j.Prepare(); exit != nil {
		t.Fatal(exit)
	}
	return r, j
}

// Even a command that would continue without the lock does not begin without it.
func TestNothingRunsUnderALostLock(t *testing.T) {
	_, lease := held(t)
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(t.TempDir(), "ran")
	t.Setenv("RAN", ran)
	r, j := jobOf(t, "touch $RAN", keeper.Ignore)
	x := &execution{run: r, job: j, lease: lease}
	ended, err := x.execute(os.Environ())
	if err != nil || ended.Cause != keeper.CauseNotRun || !errors.Is(x.lost, holdfast.ErrReleased) {
		t.Errorf("ended with %+v, %v; lost: %v", ended, err, x.lost)
	}
	if exists(ran) {
		t.Error("the command ran")
	}
	exit := r.verdict(j, ended, x.lost)
	if want := holdfast.ErrReleased.Error() + "; the command was not run"; exit.Code != exitcode.Lost || exit.Error() != want {
		t.Errorf("exit code %d, %q; want %d, %q", exit.Code, exit.Error(), exitcode.Lost, want)
	}
}

// Fault: A keeper exits late, or is killed, before its job has ended or afterwards. The lock is released all the same,
// once nothing of the job remains.
//
// Bug: sh -c is killed, and its child lives on.
func TestTheLockIsReleasedWhenNothingOfTheJobRuns(t *testing.T) {
	const leavesProcesses = `trap '' TERM
setsid sh -c 'trap "" TERM; setsid sh -c "touch $DIR/up; sleep 1000; :" & sleep 1000; :' &
until [ -e $DIR/up ]; do sleep 0.01; done; `
	for name, c := range map[string]struct {
		script string
		during func(keeper int)              // what happens while the job runs
		after  func(keeper int, exit string) // and after the release
		code   int
	}{
		"the keeper exits late": {
			script: "exit 3", code: 3,
			after: func(_ int, exit string) { _ = os.WriteFile(exit, nil, 0o600) },
		},
		"the keeper is killed before it exits": {
			script: "exit 3", code: 3,
			after: func(keeper int, _ string) { _ = syscall.Kill(keeper, syscall.SIGKILL) },
		},
		"the keeper is killed": {
			script: "sleep 1000", code: exitcode.Internal,
			during: func(keeper int) { _ = syscall.Kill(keeper, syscall.SIGKILL) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			lock, lease := held(t)
			dir := t.TempDir()
			exit := filepath.Join(dir, "exit")
			t.Setenv("DIR", dir)
			t.Setenv("EXIT", exit)
			r, j := jobOf(t, leavesProcesses+c.script, keeper.Terminate)
			released, over := make(chan []int, 1), make(chan int, 1)
			go func() {
				<-lease.Done() // when the release begins
				_, left := jobIn(dir)
				released <- left
			}()
			go func() {
				exit, _ := r.hold(j, lease, false)
				over <- exit.Code
			}()
			await(t, "the job runs", func() bool { return exists(filepath.Join(dir, "up")) })
			kept, _ := jobIn(dir)
			if c.during != nil {
				c.during(kept)
			}
			await(t, "the lock is about to be released", func() bool { return len(released) > 0 })
			if left := <-released; len(left) > 0 {
				t.Errorf("processes %v of the job run while the lock is released", left)
			}
			next, err := lock.Acquire(t.Context())
			if err != nil || next.Fence() <= lease.Fence() {
				t.Fatalf("the next holder gets %v, %v", next, err)
			}
			if err := next.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if c.after != nil {
				if still, _ := jobIn(dir); still != kept {
					t.Errorf("keeper %d has exited", kept)
				}
			}
			if code := <-over; code != c.code { // it does not wait for the keeper
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if c.after != nil {
				c.after(kept, exit)
			}
			r.awaitKeeper()
			if still, left := jobIn(dir); still != 0 || len(left) > 0 {
				t.Errorf("keeper %d and processes %v remain", still, left)
			}
		})
	}
}

// jobIn returns the keeper and the job that have DIR=dir in their environment.
func jobIn(dir string) (keeper int, job []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		env, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(env), "DIR="+dir+"\x00") {
			continue
		}
		proc := filepath.Dir(f)
		pid, _ := strconv.Atoi(filepath.Base(proc))
		if line, _ := os.ReadFile(filepath.Join(proc, "cmdline")); strings.Contains(string(line), "__keep") {
			keeper = pid
		} else {
			job = append(job, pid)
		}
	}
	return keeper, job
}

// await waits until happened returns true, for at most a minute.
func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for began := time.Now(); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
