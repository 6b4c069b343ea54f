package command

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// trial is one holdfast process and a folder for its job, $DIR.
type trial struct {
	t      *testing.T
	name   string // of the lock
	dir    string
	cmd    *exec.Cmd
	stderr transcript
	ended  chan int      // the exit code; -1: killed
	done   chan struct{} // closed thereafter
}

// transcript is what a process has said, also while it runs.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// stubborn is a shell script for a job that does not want to end: it ignores TERM,
// has children in its group, in a session of their own, and below that, and says
// in $DIR/up that it runs. What got a TERM says so.
const stubborn = `
trap 'touch $DIR/term' TERM
sleep 1000 &
setsid sh -c 'trap "touch $DIR/term-session" TERM; (setsid sleep 1000 &) ; while :; do sleep 0.05; done' &
touch $DIR/up
while :; do sleep 0.05; done`

// begin starts holdfast run with the given flags and a script for sh -c. redis is
// a server or the way to it.
func begin(t *testing.T, redis interface{ Addr() string }, script string, flags ...string) *trial {
	t.Helper()
	return beginAs(t, "run", t.Name(), redis, script, flags...)
}

// beginAs starts one of holdfast's commands that run others, for a lock of that name.
func beginAs(t *testing.T, command, name string, redis interface{ Addr() string }, script string, flags ...string) *trial {
	t.Helper()
	r := &trial{t: t, name: name, dir: t.TempDir(), ended: make(chan int, 1), done: make(chan struct{})}
	args := append([]string{command}, flags...)
	args = append(args, name, "--", "sh", "-c", script)
	r.cmd = exec.Command("holdfast", args...)
	r.cmd.Env = append(os.Environ(), "DIR="+r.dir, "HOLDFAST_REDIS=redis://"+redis.Addr(), "GORACE=atexit_sleep_ms=0")
	r.cmd.Stderr = &r.stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.WaitDelay = 5 * time.Second
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait()
		r.ended <- r.cmd.ProcessState.ExitCode()
		close(r.done)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Signal(unix.SIGCONT)
		for _, pid := range r.alive() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		<-r.done
		if t.Failed() {
			t.Logf("stderr:\n%s", r.stderr.String())
		}
	})
	return r
}

// alive lists the processes of the trial: those with its folder in their
// environment.
func (r *trial) alive() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		env, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(env), "DIR="+r.dir+"\x00") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// job lists those of them that are neither holdfast nor its keeper.
func (r *trial) job() (pids []int) {
	for _, pid := range r.alive() {
		if pid != r.cmd.Process.Pid && pid != r.keeper() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// keeper is the pid of the keeper, or 0.
func (r *trial) keeper() int {
	for _, pid := range r.alive() {
		if line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); bytes.Contains(line, []byte("__keep\x00")) {
			return pid
		}
	}
	return 0
}

func (r *trial) signal(pid int, sig syscall.Signal) {
	r.t.Helper()
	if err := unix.Kill(pid, sig); err != nil {
		r.t.Fatalf("signal %v to %d: %v", sig, pid, err)
	}
}

func (r *trial) file(name string) bool {
	_, err := os.Stat(filepath.Join(r.dir, name))
	return err == nil
}

// until waits for something to become true.
func (r *trial) until(what string, limit time.Duration, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not within %s: %s; left: %v", limit, what, r.alive())
		}
	}
}

func (r *trial) up() {
	r.t.Helper()
	r.until("the job runs", 20*time.Second, func() bool { return r.file("up") })
}

// gone fails unless the whole job has ended within limit.
func (r *trial) gone(limit time.Duration) {
	r.t.Helper()
	r.until("nothing of the job is left", limit, func() bool { return len(r.job()) == 0 })
}

func (r *trial) exits(want int) {
	r.t.Helper()
	select {
	case got := <-r.ended:
		if got != want {
			r.t.Errorf("exit code %d, want %d", got, want)
		}
	case <-time.After(20 * time.Second):
		r.t.Fatalf("holdfast does not end; left: %v", r.alive())
	}
	if left := r.alive(); len(left) > 0 {
		r.t.Errorf("processes survived holdfast: %v", left)
	}
}

// Short leases: TERM comes 1.3 s after the last renewal, KILL 590 ms later.
var short = []string{"--ttl", "2s", "--kill-after", "650ms"}

const (
	ttl       = 2 * time.Second
	killAfter = 650 * time.Millisecond
)

func TestServerPausedWhileTheJobRuns(t *testing.T) {
	redis := server.Start(t, server.One(t))
	r := begin(t, redis, stubborn, short...)
	r.up()
	paused := time.Now()
	redis.Pause()
	r.gone(ttl - time.Since(paused)) // no renewal was answered since
	for _, name := range []string{"term", "term-session"} {
		told, err := os.Stat(filepath.Join(r.dir, name))
		if err != nil {
			t.Fatalf("killed without a TERM: no %s", name)
		}
		if told.ModTime().After(paused.Add(ttl - killAfter + 100*time.Millisecond)) {
			t.Errorf("TERM came %s after the pause, too late", told.ModTime().Sub(paused))
		}
	}
	redis.Resume()
	r.exits(79)
}

func TestHoldfastStoppedWhileTheJobRuns(t *testing.T) {
	r := begin(t, server.Start(t, server.One(t)), stubborn, short...)
	r.up()
	stopped := time.Now()
	r.signal(r.cmd.Process.Pid, unix.SIGSTOP)
	r.gone(ttl - time.Since(stopped))
	if !r.file("term") {
		t.Error("killed without a TERM")
	}
	r.signal(r.cmd.Process.Pid, unix.SIGCONT)
	r.exits(79)
}

func TestEverythingStoppedPastTheDeadline(t *testing.T) {
	const ttl, grace = 6 * time.Second, 2 * time.Second
	r := begin(t, server.Start(t, server.One(t)), stubborn, "--ttl", ttl.String(), "--kill-after", grace.String())
	r.up()
	keeper := r.keeper()
	r.signal(r.cmd.Process.Pid, unix.SIGSTOP)
	r.signal(keeper, unix.SIGSTOP)
	for _, pid := range r.job() {
		_ = unix.Kill(pid, unix.SIGSTOP) // Some end by themselves.
	}
	time.Sleep(ttl)
	r.signal(keeper, unix.SIGCONT)
	r.gone(grace * 2 / 3) // the grace is over
	r.signal(r.cmd.Process.Pid, unix.SIGCONT)
	r.exits(79)
}

func TestHoldfastKilled(t *testing.T) {
	r := begin(t, server.Start(t, server.One(t)), stubborn, "--kill-after", "500ms")
	r.up()
	r.signal(r.cmd.Process.Pid, unix.SIGKILL)
	r.until("nothing is left", 2*time.Second, func() bool { return len(r.alive()) == 0 })
	if !r.file("term") || !r.file("term-session") {
		t.Error("killed without a TERM")
	}
	r.exits(-1)
}

func TestKeeperKilled(t *testing.T) {
	r := begin(t, server.Start(t, server.One(t)), stubborn)
	r.up()
	r.signal(r.keeper(), unix.SIGKILL)
	r.gone(2 * time.Second)
	r.exits(70)
}

// TestLockHandedOverSlowly delays the renewal of a lock that was handed over, and at
// first is good for less than --kill-after.
func TestLockHandedOverSlowly(t *testing.T) {
	t.Parallel()
	redis := server.Start(t, server.One(t))
	slow := proxy.New(t, redis.Addr())
	first := begin(t, redis, "touch $DIR/up; until [ -e $DIR/go ]; do sleep 0.05; done")
	first.up()
	second := begin(t, slow, "touch $DIR/up; sleep 0.5; exit 3")
	second.until("it waits", 10*time.Second, func() bool {
		n, _ := redis.Do("EXISTS", "holdfast:{"+t.Name()+"}:q")
		return n == int64(1)
	})
	slow.DelayRequests(150 * time.Millisecond)
	if err := os.WriteFile(filepath.Join(first.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first.exits(0)
	second.exits(3)
}

// TestHoldfastAndKeeperKilled shows the most that can be hoped for then: the command
// itself dies with the keeper.
func TestHoldfastAndKeeperKilled(t *testing.T) {
	r := begin(t, server.Start(t, server.One(t)), stubborn+"; : the command")
	r.up()
	keeper := r.keeper()
	r.signal(r.cmd.Process.Pid, unix.SIGKILL)
	r.signal(keeper, unix.SIGKILL)
	r.until("the command is dead", 20*time.Second, func() bool {
		for _, pid := range r.alive() {
			if line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); bytes.Contains(line, []byte(": the command")) {
				return false
			}
		}
		return true
	})
}

// TestProcessGroupKilled does as a shell that kills a whole pipeline: the keeper is
// in a group of its own.
func TestProcessGroupKilled(t *testing.T) {
	r := begin(t, server.Start(t, server.One(t)), stubborn, "--kill-after", "500ms")
	r.up()
	r.signal(-r.cmd.Process.Pid, unix.SIGKILL)
	r.until("nothing is left", 2*time.Second, func() bool { return len(r.alive()) == 0 })
	r.exits(-1)
}

func TestLockDeletedWhileTheJobRuns(t *testing.T) {
	redis := server.Start(t, server.One(t))
	r := begin(t, redis, stubborn, short...)
	r.up()
	deleted := time.Now()
	if n, err := redis.Do("DEL", "holdfast:{"+t.Name()+"}"); err != nil || n != int64(1) {
		t.Fatalf("DEL: %v, %v", n, err)
	}
	r.until("TERM", ttl/3+500*time.Millisecond-time.Since(deleted), func() bool { return r.file("term") && r.file("term-session") })
	r.gone(killAfter + 200*time.Millisecond)
	r.exits(79)
}

// unlessIgnored skips a test where holdfast ignores the signal, as the test itself does.
func unlessIgnored(t *testing.T, sig os.Signal) {
	t.Helper()
	if signal.Ignored(sig) {
		t.Skipf("SKIPPED: %s is ignored here, as nohup has it", sig)
	}
}

func TestSignalsReachTheJob(t *testing.T) {
	redis := server.Start(t, server.One(t))
	for sig, code := range map[syscall.Signal]int{
		unix.SIGINT: 130, unix.SIGTERM: 143, unix.SIGHUP: 129, unix.SIGQUIT: 131, unix.SIGUSR1: 138, unix.SIGUSR2: 140,
	} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			unlessIgnored(t, sig)
			// What is in a session of its own hears nothing of it, and is ended after it.
			r := begin(t, redis, `ulimit -c 0; setsid sleep 1000 & touch $DIR/up; exec sleep 1000`)
			r.up()
			r.signal(r.cmd.Process.Pid, sig)
			r.exits(code)
		})
	}
}

func TestJobDecidesAboutSignals(t *testing.T) {
	r := begin(t, server.Start(t, server.One(t)), `trap 'exit 5' TERM; touch $DIR/up; while :; do sleep 0.05; done`)
	r.up()
	r.signal(r.cmd.Process.Pid, unix.SIGTERM)
	r.exits(5)
}

func TestInterruptedWhileWaiting(t *testing.T) {
	redis := server.Start(t, server.One(t))
	for sig, code := range map[syscall.Signal]int{
		unix.SIGINT: 130, unix.SIGTERM: 143, unix.SIGHUP: 129, unix.SIGQUIT: 131,
	} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			unlessIgnored(t, sig)
			if _, err := redis.Do("SET", "holdfast:{"+t.Name()+"}", "somebody", "PX", 60000); err != nil {
				t.Fatal(err)
			}
			r := begin(t, redis, "touch $DIR/up")
			queue := func() bool { n, _ := redis.Do("EXISTS", "holdfast:{"+t.Name()+"}:q"); return n == int64(1) }
			r.until("holdfast waits", 10*time.Second, queue)
			r.signal(r.cmd.Process.Pid, sig)
			r.exits(code)
			if r.file("up") {
				t.Error("the command ran")
			}
			if queue() {
				t.Error("it is still in the queue")
			}
			if !strings.Contains(r.stderr.String(), "while waiting for lock") {
				t.Errorf("said %q", r.stderr.String())
			}
		})
	}
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	redis := server.Start(t, server.One(t))
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", `trap '' HUP; exec holdfast run nohup -- sh -c 'echo $PPID; kill -HUP $$; exit 3'`)
	cmd.Env = append(os.Environ(), "DIR="+dir, "HOLDFAST_REDIS=redis://"+redis.Addr())
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("the job did not survive a HUP that was to be ignored: %v", err)
	}
}
