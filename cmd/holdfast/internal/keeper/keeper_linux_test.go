package keeper

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if code, ok := Main(os.Args[1:]); ok {
		os.Exit(code)
	}
	// With the race detector, a keeper would sleep for a second before it exits.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// Tests in virtual time (keeper_test.go) and tests of the program (tests/command) check times. Here, graces and deadlines
// are so long, or so short, that none can be missed.
const (
	never = time.Hour
	hang  = time.Minute // after which a test fails
)

// start runs a shell script as a job. $DIR is a directory of its own.
func start(t *testing.T, spec Spec, script string) (*Job, string) {
	t.Helper()
	dir := t.TempDir()
	spec.Path, spec.Args = "/bin/sh", []string{"sh", "-c", script}
	spec.Env = append(os.Environ(), "DIR="+dir)
	spec.Stdout, spec.Stderr = os.Stderr, os.Stderr
	if spec.OnLost == "" {
		spec.OnLost = Terminate
	}
	j, err := Start(spec)
	must(t, err)
	t.Cleanup(func() {
		_ = unix.Kill(-j.PID, unix.SIGKILL)
		for range j.Events() {
		}
		if left := within(dir); len(left) > 0 {
			t.Errorf("%d processes survived: %v", len(left), left)
		}
	})
	return j, dir
}

// within returns the processes that have DIR=dir in their environment.
func within(dir string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if env, err := os.ReadFile(f); err == nil && strings.Contains(string(env), "DIR="+dir) {
			pids = append(pids, filepath.Base(filepath.Dir(f)))
		}
	}
	return pids
}

// await returns the first event of a kind, or Ended if that comes first.
func await(t *testing.T, j *Job, kind Kind) Event {
	t.Helper()
	limit := time.After(hang)
	for {
		select {
		case ev := <-j.Events():
			if ev.Kind == kind || ev.Kind == Ended {
				return ev
			}
		case <-limit:
			t.Fatalf("no event %d", kind)
		}
	}
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	for began := time.Now(); time.Since(began) < hang; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
	t.Fatalf("no file %s", path)
}

func TestCommandWaitsForRelease(t *testing.T) {
	t.Parallel()
	j, dir := start(t, Spec{}, "[ -e $DIR/released ] || exit 9; touch $DIR/ran")
	time.Sleep(100 * time.Millisecond) // a command that does not wait would not find the file
	must(t, os.WriteFile(dir+"/released", nil, 0o600))
	j.Release(time.Now().Add(never))
	if ev := await(t, j, Ended); ev.Code != 0 || ev.Signal != 0 || ev.Err != "" {
		t.Errorf("ended with %+v", ev)
	}
	awaitFile(t, dir+"/ran")
}

// A forked child moves files to numbers that other inherited files may have.
func TestKeepersStartWhileFilesComeAndGo(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	var churn, starts sync.WaitGroup
	for seed := range uint64(2) {
		order := rand.New(rand.NewPCG(seed, 0))
		churn.Go(func() {
			for {
				var files []*os.File
				for range 12 {
					f, err := os.Open(os.DevNull)
					if err != nil {
						t.Error(err)
						return
					}
					files = append(files, f)
				}
				for _, i := range order.Perm(len(files)) {
					files[i].Close()
				}
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	for range 6 {
		starts.Go(func() {
			for range 20 {
				j, err := Start(Spec{Path: "/bin/true", Args: []string{"true"}, Env: os.Environ(), OnLost: Terminate})
				if err != nil {
					t.Error(err)
					return
				}
				j.Signal(int(unix.SIGKILL))
				for range j.Events() {
				}
			}
		})
	}
	starts.Wait()
	close(over)
	churn.Wait()
}

// stubborn leaves processes that ignore TERM: in the group, in a session of their own, and below that.
const stubborn = `trap '' TERM
sleep 1000 &
setsid sh -c 'trap "" TERM; setsid sh -c "sleep 1000; :" & touch $DIR/up; sleep 1000; :' &
`

func TestStoppedCommandGetsTerm(t *testing.T) {
	t.Parallel()
	j, dir := start(t, Spec{KillAfter: never}, `trap 'exit 4' TERM; touch $DIR/up; while :; do sleep 0.01; done`)
	j.Release(time.Now().Add(2 * never))
	awaitFile(t, dir+"/up")
	must(t, unix.Kill(j.PID, unix.SIGSTOP))
	if ev := await(t, j, Stopped); ev.Signal != int(unix.SIGSTOP) {
		t.Fatalf("got %+v", ev)
	}
	j.Lost()
	if ev := await(t, j, Ended); ev.Code != 4 {
		t.Errorf("ended with %+v", ev)
	}
}

// This test does not run in parallel, because every child of the test is killed with the keeper.
//
// Fault: A keeper is killed. Its job dies with it.
func TestKilledKeeperTakesTheJobAlong(t *testing.T) {
	// A child of this process that does not belong to the keeper must survive.
	bystander, err := os.StartProcess("/bin/sleep", []string{"sleep", "60"}, &os.ProcAttr{})
	must(t, err)
	defer func() { _ = bystander.Kill(); _, _ = bystander.Wait() }()

	j, dir := start(t, Spec{KillAfter: never}, stubborn+"sleep 1000")
	j.Release(time.Now().Add(2 * never))
	awaitFile(t, dir+"/up")
	for _, d := range descendants(os.Getpid()) {
		if d.pid == j.PID {
			must(t, unix.Kill(d.parent, unix.SIGKILL))
		}
	}
	if ev := await(t, j, Ended); ev.Err == "" {
		t.Errorf("ended with %+v", ev)
	}
	if err := unix.Kill(bystander.Pid, 0); err != nil {
		t.Errorf("the bystander: %v", err)
	}
	for range j.Events() {
	}
	if left := within(dir); len(left) > 0 {
		t.Errorf("%d processes survived: %v", len(left), left)
	}
}

func TestParseStat(t *testing.T) {
	for stat, want := range map[string]process{
		"12 (sh) S 3 4 5 0":             {12, 3, 4, false},
		"12 (a) Z 9 9) (b) Z 3 4 5 0\n": {12, 3, 4, true},
	} {
		if got, ok := parseStat(12, stat); !ok || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", stat, got, ok, want)
		}
	}
	for _, stat := range []string{"", "12 (sh)", "12 (sh) S x y"} {
		if got, ok := parseStat(12, stat); ok {
			t.Errorf("%q: got %+v", stat, got)
		}
	}
}

func TestPIDsOf(t *testing.T) {
	for status, want := range map[string]string{
		"Name:\tx\nNSpid:\t7\nNSpgid:\t9\n": "[7] true",
		"NSpid:\t4711\t7\n":                 "[4711 7] true",
		"Name:\tNSpid\nPid:\t7\n":           "[] false",
	} {
		if got := fmt.Sprint(pidsOf(status)); got != want {
			t.Errorf("%q: %s, want %s", status, got, want)
		}
	}
}
