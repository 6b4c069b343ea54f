package keeper

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The first thread is main's: what runs in another goroutine is on another thread.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == launchArg {
		go func() {
			code, _ := Hidden(os.Args[1:])
			os.Exit(code)
		}()
		select {}
	}
	if code, was := Hidden(os.Args[1:]); was {
		os.Exit(code)
	}
	if len(os.Args) == 3 && os.Args[1] == deathSignalArg {
		var sig int32
		if err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&sig)), 0, 0, 0); err != nil {
			panic(err)
		}
		if err := os.WriteFile(os.Args[2], []byte(strconv.Itoa(int(sig))), 0o600); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	// A keeper made with the race detector would sleep for a second at its end.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// deathSignalArg makes the test write to a file what its first thread's parent-death
// signal is.
const deathSignalArg = "__death_signal"

// start runs a shell script as a job. In it, $DIR is a directory of its own.
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
	if err != nil {
		t.Fatal(err)
	}
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

// within lists the processes that have DIR=dir in their environment.
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
	limit := time.After(20 * time.Second)
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
	for range 1000 {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no file %s", path)
}

func TestCommandWaitsForRelease(t *testing.T) {
	j, dir := start(t, Spec{}, "touch $DIR/ran")
	time.Sleep(100 * time.Millisecond)
	if _, err := os.Stat(dir + "/ran"); err == nil {
		t.Error("the command ran before Release")
	}
	j.Release(time.Now().Add(time.Hour))
	if ev := await(t, j, Ended); ev.Code != 0 || ev.Signal != 0 || ev.Err != "" {
		t.Errorf("ended with %+v", ev)
	}
	awaitFile(t, dir+"/ran")
}

func TestCommandNeverRunsPastTheDeadline(t *testing.T) {
	j, dir := start(t, Spec{KillAfter: 100 * time.Millisecond}, "touch $DIR/ran")
	j.Release(time.Now().Add(-time.Second))
	if ev := await(t, j, Ended); ev.Cause != CauseLost {
		t.Errorf("ended with %+v", ev)
	}
	if _, err := os.Stat(dir + "/ran"); err == nil {
		t.Error("the command ran without a lock")
	}
}

// A machine that stalls can spoil a try, not each of three.
func TestDeadlineBringsTermThenKill(t *testing.T) {
	var spoilt string
	for range 3 {
		if spoilt = termThenKill(t); spoilt == "" {
			return
		}
		t.Log(spoilt)
	}
	t.Error(spoilt)
}

// termThenKill returns what came at the wrong time.
func termThenKill(t *testing.T) (spoilt string) {
	j, dir := start(t, Spec{KillAfter: 500 * time.Millisecond},
		`trap 'touch $DIR/term' TERM; touch $DIR/up; while :; do sleep 0.01; done`)
	deadline := time.Now().Add(2 * time.Second)
	j.Release(deadline)
	awaitFile(t, dir+"/up")
	ev := await(t, j, Ended)
	early := time.Until(deadline)
	if ev.Cause != CauseLost || ev.Signal != int(unix.SIGKILL) {
		t.Errorf("ended with %+v", ev)
	}
	if early <= 0 || early > 200*time.Millisecond {
		return fmt.Sprintf("killed %s before the deadline, want by its margin of 100ms", early)
	}
	term, err := os.Stat(dir + "/term")
	if err != nil {
		t.Fatal("no TERM came before KILL")
	}
	if before := deadline.Sub(term.ModTime()); before < 300*time.Millisecond || before > 600*time.Millisecond {
		return fmt.Sprintf("TERM came %s before the deadline, want 500ms", before)
	}
	return ""
}

func TestRenewalsKeepTheCommandRunning(t *testing.T) {
	j, _ := start(t, Spec{KillAfter: 100 * time.Millisecond}, "sleep 1")
	j.Release(time.Now().Add(400 * time.Millisecond))
	for range 10 {
		time.Sleep(100 * time.Millisecond)
		j.SetDeadline(time.Now().Add(400 * time.Millisecond))
	}
	if ev := await(t, j, Ended); ev.Cause != "" || ev.Code != 0 || ev.Signal != 0 {
		t.Errorf("ended with %+v", ev)
	}
}

func TestPolicies(t *testing.T) {
	const script = `trap 'touch $DIR/usr1' USR1; trap 'touch $DIR/term' TERM; touch $DIR/up
n=0; while [ $n -lt 100 ]; do sleep 0.01; n=$((n+1)); done; exit 7`
	for _, c := range []struct {
		policy     Policy
		usr1, term bool
		want       Event
	}{
		{Terminate, false, true, Event{Kind: Ended, Signal: 9, Cause: CauseLost}},
		{Kill, false, false, Event{Kind: Ended, Signal: 9, Cause: CauseLost}},
		{Notify, true, false, Event{Kind: Ended, Code: 7}},
		{Ignore, false, false, Event{Kind: Ended, Code: 7}},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			t.Parallel()
			j, dir := start(t, Spec{OnLost: c.policy, KillAfter: 200 * time.Millisecond}, script)
			j.Release(time.Now().Add(time.Hour))
			awaitFile(t, dir+"/up")
			j.Lost()
			if ev := await(t, j, Ended); fmt.Sprint(ev) != fmt.Sprint(c.want) {
				t.Errorf("ended with %+v, want %+v", ev, c.want)
			}
			for file, want := range map[string]bool{"usr1": c.usr1, "term": c.term} {
				if _, err := os.Stat(dir + "/" + file); (err == nil) != want {
					t.Errorf("%s: got signalled %v, want %v", file, err == nil, want)
				}
			}
		})
	}
}

// A child that is forked moves files to numbers that others of its files may have.
func TestKeepersStartWhileFilesComeAndGo(t *testing.T) {
	over := make(chan struct{})
	var churn, starts sync.WaitGroup
	for range 2 {
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
				for _, i := range rand.Perm(len(files)) {
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

// stubborn leaves processes that do not want to end: in the group, in a session of
// their own, and below that.
const stubborn = `trap '' TERM
sleep 1000 &
setsid sh -c 'trap "" TERM; setsid sh -c "sleep 1000; :" & touch $DIR/up; sleep 1000; :' &
`

func TestWhatTheCommandLeavesIsEnded(t *testing.T) {
	j, _ := start(t, Spec{KillAfter: 200 * time.Millisecond}, stubborn+"until [ -e $DIR/up ]; do sleep 0.01; done; exit 3")
	began := time.Now()
	j.Release(began.Add(time.Hour))
	if ev := await(t, j, Leftover); len(ev.PIDs) < 3 {
		t.Errorf("left over: %v", ev.PIDs)
	}
	if ev := await(t, j, Ended); ev.Code != 3 || ev.Cause != "" {
		t.Errorf("ended with %+v", ev)
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("no grace was given: ended after %s", took)
	}
}

func TestMaxRuntime(t *testing.T) {
	j, _ := start(t, Spec{KillAfter: 200 * time.Millisecond, MaxRuntime: 300 * time.Millisecond}, stubborn+"sleep 1000")
	j.Release(time.Now().Add(time.Hour))
	if ev := await(t, j, Ended); ev.Cause != CauseMaxRuntime || ev.Signal != 9 {
		t.Errorf("ended with %+v", ev)
	}
}

func TestStoppedCommandHearsTerm(t *testing.T) {
	j, dir := start(t, Spec{KillAfter: 5 * time.Second}, `trap 'exit 4' TERM; touch $DIR/up; while :; do sleep 0.01; done`)
	j.Release(time.Now().Add(time.Hour))
	awaitFile(t, dir+"/up")
	if err := unix.Kill(j.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if ev := await(t, j, Stopped); ev.Signal != int(unix.SIGSTOP) {
		t.Fatalf("got %+v", ev)
	}
	j.Lost()
	if ev := await(t, j, Ended); ev.Code != 4 {
		t.Errorf("ended with %+v", ev)
	}
}

// The stage before the command may have moved to a thread whose parent-death signal
// nobody has set. Here it always has.
func TestCommandDiesWithItsKeeperOnAnyThread(t *testing.T) {
	j, dir := start(t, Spec{}, "exec "+os.Args[0]+" "+deathSignalArg+" $DIR/signal")
	j.Release(time.Now().Add(time.Hour))
	if ev := await(t, j, Ended); ev.Code != 0 || ev.Signal != 0 {
		t.Fatalf("ended with %+v", ev)
	}
	if got, err := os.ReadFile(dir + "/signal"); err != nil || string(got) != strconv.Itoa(int(unix.SIGKILL)) {
		t.Errorf("the command's parent-death signal is %q, %v; want KILL", got, err)
	}
}

func TestKilledKeeperTakesTheJobAlong(t *testing.T) {
	// A child of ours that is not the keeper's is to survive.
	bystander, err := os.StartProcess("/bin/sleep", []string{"sleep", "60"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Kill(); _, _ = bystander.Wait() }()

	j, dir := start(t, Spec{KillAfter: time.Minute}, stubborn+"sleep 1000")
	j.Release(time.Now().Add(time.Hour))
	awaitFile(t, dir+"/up")
	for _, d := range descendants(os.Getpid()) {
		if d.pid == j.PID {
			if err := unix.Kill(d.parent, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
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
