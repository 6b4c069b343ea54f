package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// trial is one holdfast process and a folder for its job, $DIR.
type trial struct {
	t    testing.TB
	name string // the lock's
	dir  string
	*child.Process
}

// stubborn is a shell script for a job that does not want to end: it ignores TERM, and has processes in its
// group, in a session of their own, and further down. It creates $DIR/up when all of them run. Each records
// that it is alive, and the first two record when they got a TERM, by a clock that all processes share: see
// uptime.
const stubborn = `
now() { read -r up _ </proc/uptime; echo $up >>$DIR/$1; }
trap 'now term' TERM
sleep 1000 &
setsid sh -c '
	now() { read -r up _ </proc/uptime; echo $up >>$DIR/$1; }
	trap "now term-session" TERM
	(setsid sh -c "trap : TERM; touch \$DIR/up; while :; do read -r up _ </proc/uptime; echo \$up >>\$DIR/alive-below; sleep 0.1; done" &)
	while :; do now alive-session; sleep 0.1; done' &
while :; do now alive; sleep 0.1; done`

// uptime returns the time since the machine started, which the keeper uses, and which jobs record.
func uptime(t testing.TB) time.Duration {
	t.Helper()
	text := expect.Of(os.ReadFile("/proc/uptime")).OK(t)
	return seconds(t, strings.Fields(string(text))[0])
}

func seconds(t testing.TB, text string) time.Duration {
	t.Helper()
	return expect.Of(time.ParseDuration(text + "s")).OK(t)
}

// moment returns the latest time that a job has recorded in that file, or 0.
func (r *trial) moment(name string) time.Duration {
	r.t.Helper()
	text, _ := os.ReadFile(filepath.Join(r.dir, name))
	lines := strings.Fields(string(text))
	if len(lines) == 0 {
		return 0
	}
	return seconds(r.t, lines[len(lines)-1])
}

// told requires that a stubborn job got a TERM.
func (r *trial) told() {
	r.t.Helper()
	if !r.file("term") || !r.file("term-session") {
		r.t.Error("killed without a TERM")
	}
}

// notAfter requires that the latest times in these files are not after the deadline.
func (r *trial) notAfter(deadline time.Duration, names ...string) {
	r.t.Helper()
	const step = 10 * time.Millisecond // the clock's resolution
	for _, name := range names {
		expect.AtMost(r.t, fmt.Sprintf("how late %q is", name), r.moment(name)-deadline, step)
	}
}

// diedBy waits for the end of a stubborn job, and requires that it was not after the deadline.
func (r *trial) diedBy(deadline time.Duration) {
	r.t.Helper()
	r.until("nothing of the job is left", func() bool { return len(r.job()) == 0 })
	r.notAfter(deadline, "alive", "alive-session", "alive-below")
}

// begin starts holdfast run with the given flags and a script for sh -c. redis is a server, or a proxy in front
// of it.
func begin(t testing.TB, redis interface{ Addr() string }, script string, flags ...string) *trial {
	t.Helper()
	return beginAs(t, "run", t.Name(), redis, script, flags...)
}

// beginAs starts one of holdfast's commands that run others, for the lock with that name.
func beginAs(t testing.TB, command, name string, redis interface{ Addr() string }, script string, flags ...string) *trial {
	t.Helper()
	args := append([]string{"holdfast", command}, flags...)
	return launch(t, name, redis, append(args, name, "--", "sh", "-c", script)...)
}

// launch starts a program that is holdfast, or becomes it.
func launch(t testing.TB, name string, redis interface{ Addr() string }, args ...string) *trial {
	t.Helper()
	uses(t)
	r := &trial{t: t, name: name, dir: t.TempDir()}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "DIR="+r.dir, "HOLDFAST_REDIS=redis://"+redis.Addr(), "GORACE=atexit_sleep_ms=0")
	stderr := expect.Of(os.Create(filepath.Join(r.dir, "stderr"))).OK(t)
	defer stderr.Close()
	cmd.Stderr = stderr
	// It has a process group of its own. If the test is killed, so is holdfast, and its keeper ends the job.
	r.Process = expect.Of(child.Run(cmd)).OK(t)
	t.Cleanup(func() {
		_ = r.Cmd.Process.Signal(unix.SIGCONT)
		for _, pid := range r.alive() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		<-r.Ended
		if t.Failed() {
			t.Logf("stderr:\n%s", r.stderr())
		}
	})
	return r
}

// alive lists the trial's processes: those with its folder in their environment.
func (r *trial) alive() []int { return processesWith("DIR=" + r.dir) }

// job lists the processes that are neither holdfast nor its keeper.
func (r *trial) job() []int {
	return slices.DeleteFunc(r.alive(), func(pid int) bool { return pid == r.Cmd.Process.Pid || isKeeper(pid) })
}

func (r *trial) keeper() int {
	for _, pid := range r.alive() {
		if isKeeper(pid) {
			return pid
		}
	}
	return 0
}

func isKeeper(pid int) bool {
	line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return bytes.Contains(line, []byte("__keep\x00"))
}

func (r *trial) signal(pid int, sig syscall.Signal) {
	r.t.Helper()
	if err := unix.Kill(pid, sig); err != nil {
		r.t.Fatalf("signal %v to %d: %v", sig, pid, err)
	}
}

// stop stops a process, and waits until all its threads have stopped.
func (r *trial) stop(pid int) {
	r.t.Helper()
	r.until("it has stopped", func() bool {
		r.signal(pid, unix.SIGSTOP) // again, if it was continued meanwhile
		state := r.state(pid)
		return state == "" || state == "T" || state == "Z"
	})
}

// state returns the system's letter for the state of a process, or "" if there is none.
func (r *trial) state(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[0]
}

func (r *trial) file(name string) bool {
	_, err := os.Stat(filepath.Join(r.dir, name))
	return err == nil
}

// write creates a file that the job waits for.
func (r *trial) write(name string) {
	r.t.Helper()
	expect.OK(r.t, os.WriteFile(filepath.Join(r.dir, name), nil, 0o600))
}

func (r *trial) until(what string, ok func() bool) {
	r.t.Helper()
	pause := 5 * time.Millisecond
	for began := time.Now(); !ok(); time.Sleep(pause) {
		pause = min(pause*3/2, 50*time.Millisecond) // some go through all processes
		if time.Since(began) > hang {
			r.t.Fatalf("not within %s: %s; left: %v", hang, what, r.alive())
		}
	}
}

// up waits until the job runs.
func (r *trial) up() {
	r.t.Helper()
	r.until("the job runs", func() bool { return r.file("up") })
}

func (r *trial) exits(want int) {
	r.t.Helper()
	if !r.EndsWithin(hang) {
		r.t.Fatalf("holdfast does not end; left: %v", r.alive())
	}
	expect.Equal(r.t, "exit code", r.ProcessState.ExitCode(), want) // -1: killed
	expect.Same(r.t, "processes that survived holdfast", r.alive(), nil)
}

func (r *trial) stderr() string {
	text, err := os.ReadFile(filepath.Join(r.dir, "stderr"))
	if err != nil {
		r.t.Error(err)
	}
	return string(text)
}

func (r *trial) says(want string) {
	r.t.Helper()
	expect.Contains(r.t, "said", r.stderr(), want)
}

func (r *trial) key() string { return "holdfast:{" + r.name + "}" }

// released waits until nobody has the lock.
func (r *trial) released(redis *server.Server) {
	r.t.Helper()
	r.until("the lock is released", func() bool { n, _ := redis.Do("EXISTS", r.key()); return n == int64(0) })
}

func (r *trial) lose(redis *server.Server) {
	r.t.Helper()
	expect.Of(redis.Do("DEL", r.key())).Is(r.t, "DEL", int64(1))
}

// patient is a shell script for a job that ends when it is told to, and records that.
const patient = `
echo $HOLDFAST_FENCE >$DIR/fence; touch $DIR/up
until [ -e $DIR/go ]; do sleep 0.05; done
touch $DIR/over`

// end tells a patient job to end.
func (r *trial) end() {
	r.t.Helper()
	r.write("go")
}

// waits waits until the lock's queue, of that kind, has so many entries.
func (r *trial) waits(redis *server.Server, kind string, as int64) {
	r.t.Helper()
	r.until(fmt.Sprint(as, " wait"), func() bool {
		n, err := redis.Do("ZCARD", r.key()+":"+kind)
		return err == nil && n == as
	})
}

// before requires that the fence of this run is lower than the other's.
func (r *trial) before(other *trial) {
	r.t.Helper()
	var fences [2]uint64
	for i, r := range []*trial{r, other} {
		text, _ := os.ReadFile(filepath.Join(r.dir, "fence"))
		var err error
		if fences[i], err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err != nil {
			r.t.Fatal(err)
		}
	}
	expect.Rises(r.t, fences[0], fences[1])
}

// leasesOf returns flags for leases of three units, with TERM one unit before their end, and KILL shortly
// before it.
func leasesOf(unit time.Duration) []string {
	return []string{"--ttl", (3 * unit).String(), "--kill-after", unit.String()}
}

// graceOf returns flags for a grace of d, and a lease that ends much later.
func graceOf(d time.Duration) []string { return []string{"--ttl=6h", "--kill-after", d.String()} }

// unit is the initial unit of these tests. KILL comes a quarter of a second before the end of a lease of three
// units.
const unit = 2 * time.Second

// Fault: The server of holdfast run is paused while the job runs. TERM and KILL reach the job before the deadline,
// and nothing of it survives.
//
// Fault: holdfast run is stopped while its job runs. The keeper ends the job before the deadline.
//
// Fault: holdfast run and its keeper are stopped. The keeper is continued when it has to act, and when the job's lock
// is renewed.
//
// Fault: The keeper of holdfast run is stopped. If the lock cannot be renewed, holdfast kills it.
//
// Bug: TERM comes after the lock is lost.
func TestTheJobEndsBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	for stopped, stop := range map[string]func(r *trial, redis *server.Server){
		"server":   func(_ *trial, redis *server.Server) { redis.Pause() },
		"holdfast": func(r *trial, _ *server.Server) { r.stop(r.Cmd.Process.Pid) },
		"holdfast and keeper": func(r *trial, _ *server.Server) {
			keeper := r.keeper()
			r.stop(keeper)
			r.until("a renewal continues the keeper", func() bool { return r.state(keeper) != "T" })
			r.stop(keeper)
			r.stop(r.Cmd.Process.Pid)
		},
		"server and keeper": func(r *trial, redis *server.Server) {
			r.stop(r.keeper())
			redis.Pause()
		},
	} {
		t.Run(stopped, func(t *testing.T) {
			t.Parallel()
			machine.UnhurriedTest(t, unit, func(t testing.TB, unit time.Duration) {
				redis := server.Start(t, server.One(t))
				r := begin(t, redis, stubborn, leasesOf(unit)...)
				r.up()
				stop(r, redis)
				at := uptime(t) // from now on no renewal succeeds
				r.diedBy(at + 3*unit)
				if stopped != "server and keeper" {
					r.told()
					r.notAfter(at+2*unit+unit/4, "term", "term-session")
				}
				redis.Resume()
				r.signal(r.Cmd.Process.Pid, unix.SIGCONT)
				r.exits(79)
			})
		})
	}
}

// Fault: holdfast run is killed. Its keeper ends the job: one that obeys TERM, and one that does not.
//
// Fault: The whole group of holdfast run is killed, as a shell does with a pipeline. The keeper is in a group of its
// own, and ends the job.
//
// Fault: The keeper of holdfast run is killed. holdfast ends what it leaves of the job.
//
// Fault: The keeper is killed while holdfast run is stopped. Its death continues holdfast, which ends what it leaves.
func TestTheJobEndsWithHoldfast(t *testing.T) {
	redis := server.Alone(t)
	holdfast := func(r *trial) { r.signal(r.Cmd.Process.Pid, unix.SIGKILL) }
	keeper := func(r *trial) { r.signal(r.keeper(), unix.SIGKILL) }
	for name, c := range map[string]struct {
		script string
		grace  time.Duration
		kill   func(r *trial)
		code   int
	}{
		"obedient": {`trap 'touch $DIR/term $DIR/term-session; exit' TERM; touch $DIR/up; while :; do sleep 0.1; done`, time.Hour, holdfast, -1},
		"stubborn": {stubborn, 500 * time.Millisecond, holdfast, -1}, // long enough for its trap on a busy machine
		"group":    {stubborn, 500 * time.Millisecond, func(r *trial) { r.signal(-r.Cmd.Process.Pid, unix.SIGKILL) }, -1},
		"keeper":   {stubborn, time.Hour, keeper, 70},
		"keeper while holdfast is stopped": {stubborn, time.Hour, func(r *trial) {
			pid := r.keeper()
			r.stop(r.Cmd.Process.Pid)
			r.signal(pid, unix.SIGKILL)
		}, 70},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := begin(t, redis, c.script, graceOf(c.grace)...)
			r.up()
			c.kill(r)
			r.until("nothing is left", func() bool { return len(r.alive()) == 0 })
			r.exits(c.code)
			if c.code < 0 {
				r.told()
			}
		})
	}
}

// Fault: The keeper is killed, and holdfast may not kill the job, which is another user's. It waits for the job, and
// keeps the lock.
func TestKeeperKilledWhoseJobIsAnotherUsers(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setpriv"); err != nil || os.Getuid() != 0 {
		t.Skip("SKIPPED: needs setpriv, and root to run it")
	}
	redis := server.Start(t, server.One(t))
	// Without this capability even root may not signal others' processes.
	r := launch(t, t.Name(), redis, "setpriv", "--bounding-set=-kill", "--inh-caps=-kill", "--", "holdfast", "run", "--ttl=6s", "--kill-after=1s", t.Name(), "--",
		"setpriv", "--reuid=65534", "--clear-groups", "--", "sh", "-c", "sleep 1000; :")
	r.until("the job is another user's", func() bool {
		return slices.ContainsFunc(r.job(), func(pid int) bool {
			var of unix.Stat_t
			return unix.Stat("/proc/"+strconv.Itoa(pid), &of) == nil && of.Uid == 65534
		})
	})
	r.signal(r.keeper(), unix.SIGKILL)
	r.until("holdfast waits", func() bool { return strings.Contains(r.stderr(), "no permission to end processes") })
	expect.Of(redis.Do("EXISTS", r.key())).Is(t, "the lock's keys", int64(1))
	for _, pid := range r.job() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	r.exits(70)
}

// TestLockHandedOverSlowly delays the renewal of a lock that was handed over, and that is first held for less
// than --kill-after.
func TestLockHandedOverSlowly(t *testing.T) {
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		redis := server.Start(t, server.One(t))
		slow := proxy.New(t, redis.Addr())
		first := begin(t, redis, patient)
		first.up()
		second := begin(t, slow, "touch $DIR/up; sleep 0.5; exit 3")
		second.waits(redis, "q", 1)
		slow.DelayRequests(150 * time.Millisecond)
		first.end()
		first.exits(0)
		second.exits(3)
	})
}

// Fault: holdfast run and its keeper are killed. The command dies with the keeper.
func TestHoldfastAndKeeperKilled(t *testing.T) {
	t.Parallel()
	r := begin(t, server.Start(t, server.One(t)), stubborn+"; : the command", graceOf(time.Hour)...)
	r.up()
	keeper := r.keeper()
	r.signal(r.Cmd.Process.Pid, unix.SIGKILL)
	r.signal(keeper, unix.SIGKILL)
	r.until("the command is dead", func() bool {
		for _, pid := range r.alive() {
			if line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); bytes.Contains(line, []byte(": the command")) {
				return false
			}
		}
		return true
	})
}

// Fault: The lock of holdfast run is deleted, whatever its kind. The next renewal finds it gone, and the jobs are ended, although the
// lease would last longer.
func TestLockDeletedWhileTheJobRuns(t *testing.T) {
	redis := server.Alone(t)
	for _, flag := range []string{"-v", "--once=1h", "--also=other", "--exclusive", "--shared", "--slots=2", "--owner=me"} {
		t.Run(strings.Trim(flag, "-"), func(t *testing.T) {
			t.Parallel()
			machine.UnhurriedTest(t, unit, func(t testing.TB, unit time.Duration) {
				with := append(leasesOf(unit), flag)
				runs := []*trial{begin(t, redis, stubborn, with...)}
				if flag == "--shared" || flag == "--slots=2" || flag == "--owner=me" {
					runs = append(runs, begin(t, redis, stubborn, with...))
				}
				for _, r := range runs {
					r.up()
				}
				runs[0].lose(redis)
				for _, r := range runs {
					r.exits(79)
					r.told()
					r.says("lost: the lock was deleted; the command was ended")
				}
			})
		})
	}
}

// Bug: QUIT or HUP orphans the child.
func TestSignalsReachTheJob(t *testing.T) {
	redis := server.Alone(t)
	for sig, code := range map[syscall.Signal]int{
		unix.SIGINT: 130, unix.SIGTERM: 143, unix.SIGHUP: 129, unix.SIGQUIT: 131, unix.SIGUSR1: 138, unix.SIGUSR2: 140,
	} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			// A process in a session of its own does not get the signal, and is ended afterwards.
			r := begin(t, redis, `ulimit -c 0; setsid sleep 1000 & touch $DIR/up; exec sleep 1000`)
			r.up()
			r.signal(r.Cmd.Process.Pid, sig)
			r.exits(code)
		})
	}
}

// A completed job is recorded while its lock is held. A signal ends the wait for that.
func TestInterruptedWhileASuccessIsWrittenDown(t *testing.T) {
	redis := server.Alone(t)
	r := begin(t, redis, "touch $DIR/up; until test -e $DIR/go; do sleep 0.05; done", "--once=1h", "--ttl=6h")
	r.up()
	redis.Pause()
	defer redis.Resume()
	r.write("go")
	r.until("the job has ended", func() bool { return len(r.job()) == 0 })
	r.until("it ends", func() bool {
		_ = r.Cmd.Process.Signal(unix.SIGTERM) // the first may still be meant for the job
		return r.HasEnded()
	})
	r.exits(69)
	r.says("the command succeeded, but this could not be recorded")
}

func TestInterruptedWhileWaiting(t *testing.T) {
	redis := server.Alone(t)
	for sig, code := range map[syscall.Signal]int{
		unix.SIGINT: 130, unix.SIGTERM: 143, unix.SIGHUP: 129, unix.SIGQUIT: 131,
	} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			order(t, redis, "SET", "holdfast:{"+t.Name()+"}", "somebody", "PX", 3600000)
			r := begin(t, redis, "touch $DIR/up")
			r.waits(redis, "q", 1)
			r.signal(r.Cmd.Process.Pid, sig)
			r.exits(code)
			expect.Equal(r.t, "the command ran", r.file("up"), false)
			r.waits(redis, "q", 0)
			r.says(fmt.Sprintf("while waiting for lock %q on %s; the command was not run", r.name, redis.Addr()))
		})
	}
}

// Fault: A server swallows the requests of holdfast run. Its wait is not much longer than --wait.
func TestWaitForASilentServerEnds(t *testing.T) {
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		began := time.Now()
		code, _, stderr := invoke(t, []string{"HOLDFAST_REDIS=redis://" + answering(t, "")}, "run", "--wait=3s", "x", "--", "true")
		if took := time.Since(began); code != 69 || took > 6*time.Second+machine.HeldUp(began) {
			t.Errorf("exit code %d after %s with --wait 3s: %s", code, took, stderr)
		}
	})
}

// clog makes a full pipe in the trial's folder, and returns its reading end.
func (r *trial) clog(name string) *os.File {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	expect.OK(r.t, unix.Mkfifo(path, 0o600))
	f := expect.Of(os.OpenFile(path, os.O_RDWR, 0)).OK(r.t)
	r.t.Cleanup(func() { f.Close() })
	size := expect.Of(unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize())).OK(r.t)
	expect.OK(r.t, expect.ErrOf(f.Write(bytes.Repeat([]byte{'.'}, size))))
	return f
}

// Fault: Nobody reads holdfast's output, as on a terminal after ^S. It holds up neither the job nor the lock.
func TestOutputThatNobodyReads(t *testing.T) {
	redis := server.Alone(t)
	machine.UnhurriedTest(t, 600*time.Millisecond, func(t testing.TB, unit time.Duration) {
		args := append(leasesOf(unit), "-v", "--json", t.Name(), "--", "sh", "-c", patient)
		r := launch(t, t.Name(), redis, append([]string{"sh", "-c", `until [ -e $DIR/ready ]; do sleep 0.02; done; exec holdfast run "$@" 2>$DIR/pipe`, "sh"}, args...)...)
		pipe := r.clog("pipe")
		r.write("ready")
		r.up()
		began := uptime(t)
		r.until("the first lease is over, and the second", func() bool { return uptime(t) > began+6*unit })
		r.end()
		r.released(redis)
		expect.Equal(r.t, "the job came to its end", r.file("over"), true)
		said := make(chan string)
		go func() {
			var text []byte
			for buf := make([]byte, 4096); !bytes.Contains(text, []byte("}\n")); {
				n, err := pipe.Read(buf)
				if text = append(text, buf[:n]...); err != nil {
					break
				}
			}
			said <- string(text)
		}()
		r.exits(0)
		text := strings.Trim(<-said, ".")
		for _, want := range []string{"acquired", "running", "released", `"outcome":"ran"`} {
			expect.Contains(t, "said", text, want)
		}
	})
}

// unshared returns arguments that run a program as the first of a PID namespace of its own, which needs root,
// or a kernel that allows it to users.
func unshared(t testing.TB, flags ...string) []string {
	t.Helper()
	args := append([]string{"unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"}, flags...)
	if said, err := exec.Command(args[0], append(args[1:], "--", "true")...).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: needs PID namespaces: %v: %s", err, said)
	}
	return append(args, "--")
}

// Fault: /proc is another namespace's, and does not show the processes that the job starts. Nothing runs.
func TestForeignProcIsRefused(t *testing.T) {
	redis := server.Alone(t)
	r := launch(t, t.Name(), redis, append(unshared(t), "holdfast", "run", "--once=1h", t.Name(), "--", "sh", "-c", "touch $DIR/up")...)
	r.exits(71)
	r.says("/proc is that of another PID namespace")
	expect.Equal(r.t, "the command ran", r.file("up"), false)
	expect.Of(redis.Do("DBSIZE")).Is(t, "keys on the server: something was locked, or counted", int64(0))
	// Its own does.
	ns := launch(t, t.Name()+"-own", redis, append(unshared(t, "--mount-proc"), "holdfast", "run", "--kill-after=200ms", t.Name()+"-own", "--",
		"sh", "-c", "setsid sleep 1000 & exit 3")...)
	ns.exits(3)
	ns.says("left processes running")
}

// Children other than the keeper, such as those that the first process of a container is given, are reaped
// while holdfast waits for the lock and while the job runs.
func TestOrphansAreReaped(t *testing.T) {
	redis := server.Alone(t)
	order(t, redis, "SET", "holdfast:{"+t.Name()+"}", "somebody", "PX", 3600000)
	const orphan = `(until [ -e $DIR/waits ]; do sleep 0.02; done) & echo $! >$DIR/first
(until [ -e $DIR/up ]; do sleep 0.02; done; (until [ -e $DIR/runs ]; do sleep 0.02; done) & echo $! >$DIR/last) &
exec holdfast run "$0" -- sh -c 'touch $DIR/up; until [ -e $DIR/go ]; do sleep 0.02; done'`
	r := launch(t, t.Name(), redis, "sh", "-c", orphan, t.Name())
	ends := func(after, name string) {
		t.Helper()
		r.write(after)
		r.until(name+" has ended, and is reaped", func() bool {
			text, _ := os.ReadFile(filepath.Join(r.dir, name))
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			return err == nil && r.state(pid) == ""
		})
	}
	r.waits(redis, "q", 1)
	ends("waits", "first")
	r.lose(redis)
	r.up()
	ends("runs", "last")
	r.write("go")
	r.exits(0)
}
