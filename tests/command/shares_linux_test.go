package command

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

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

// alone returns a patient job that fails if the others' jobs run when it begins.
func alone(others ...*trial) string {
	var script strings.Builder
	for _, r := range others {
		fmt.Fprintf(&script, "[ -e %s/up ] && ! [ -e %[1]s/over ] && exit 9\n", r.dir)
	}
	return script.String() + patient
}

// queued returns how many wait for the test's lock, which is of that kind.
func queued(t testing.TB, redis *server.Server, kind string) any {
	t.Helper()
	n, err := redis.Do("ZCARD", "holdfast:{"+t.Name()+"}:"+kind)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (r *trial) waits(redis *server.Server, kind string, as int64) {
	r.t.Helper()
	r.until(fmt.Sprint(as, " wait"), func() bool {
		n, err := redis.Do("ZCARD", r.key()+":"+kind)
		return err == nil && n == as
	})
}

func TestSharedAndExclusiveRuns(t *testing.T) {
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		redis := server.Start(t, server.One(t))
		first, second := begin(t, redis, patient, "--shared"), begin(t, redis, patient, "--shared")
		first.up()
		second.up() // and neither ends by itself
		writer := begin(t, redis, alone(first, second), "--exclusive")
		writer.waits(redis, "rw", 1)
		late := begin(t, redis, alone(writer), "--shared")
		late.waits(redis, "rw", 2)
		late.end()
		if a, b := first.fence(), second.fence(); a != b {
			t.Errorf("two shared runs beside each other have fences %s and %s", a, b)
		}
		first.end()
		first.exits(0) // the waiter that its release serves has left the queue
		if n := queued(t, redis, "rw"); n != int64(2) {
			t.Errorf("%v wait while a shared run is left, want 2", n)
		}
		second.end()
		second.exits(0)
		writer.up()
		if late.file("up") && !late.file("over") { // it may have overtaken a writer that was slow to take its turn
			t.Error("an exclusive run is not alone")
		}
		writer.end()
		writer.exits(0)
		late.exits(0)
	})
}

// Fault: holdfast run --slots is killed. Its slot comes back when the job in it is dead.
func TestSlotOfAKilledRunComesBack(t *testing.T) {
	long(t)
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		redis := server.Start(t, server.One(t))
		first := begin(t, redis, stubborn, "--slots=2", "--ttl=6s", "--kill-after=2s")
		second := begin(t, redis, patient, "--slots=2")
		first.up()
		second.up()
		third := begin(t, redis, patient, "--slots=2")
		third.waits(redis, "sem", 1)
		if third.file("up") {
			t.Error("it runs while it waits")
		}
		first.signal(first.cmd.Process.Pid, unix.SIGKILL)
		third.up()
		if left := first.job(); len(left) > 0 {
			t.Errorf("the slot was given on, but processes %v still run in it", left)
		}
		first.exits(-1)
		if second.file("over") {
			t.Error("the other job was ended, too")
		}
		for _, r := range []*trial{second, third} {
			r.end()
			r.exits(0)
		}
	})
}

// Fault: The lock of shared runs is deleted. The next renewal, not the deadline, ends the jobs.
func TestSharedLockDeletedWhileJobsRun(t *testing.T) {
	long(t)
	t.Parallel()
	redis := server.Start(t, server.One(t))
	for _, flags := range [][]string{{"--shared"}, {"--exclusive"}, {"--slots=2"}, {"--owner=me"}} {
		t.Run(flags[0][2:], func(t *testing.T) {
			t.Parallel()
			machine.UnhurriedTest(t, unit, func(t testing.TB, unit time.Duration) {
				with := append(flags, leasesOf(unit)...)
				runs := []*trial{begin(t, redis, stubborn, with...)}
				if flags[0] != "--exclusive" {
					runs = append(runs, begin(t, redis, stubborn, with...))
				}
				for _, r := range runs {
					r.up()
				}
				runs[0].lose(redis)
				for _, r := range runs {
					r.exits(79)
					r.foundGone()
					r.told()
					r.foundGone()
				}
			})
		})
	}
}

// Fault: A lock of holdfast run is lost, of whatever kind. --on-lost says what happens to the job.
func TestOnLostOfEveryKind(t *testing.T) {
	long(t)
	t.Parallel()
	redis := server.Start(t, server.One(t))
	const job = `
trap 'touch $DIR/term' TERM; trap 'touch $DIR/usr1' USR1; touch $DIR/up
until [ -e $DIR/go ]; do sleep 0.05; done; exit 6`
	for _, flag := range []string{"--shared", "--exclusive", "--slots=2", "--owner=me", "--once=1h", "--also=other"} {
		for _, policy := range []string{"kill", "notify", "ignore"} {
			t.Run(strings.Trim(flag, "-")+" "+policy, func(t *testing.T) {
				t.Parallel()
				machine.UndisturbedTest(t, func(t testing.TB) {
					flag := strings.Replace(flag, "other", t.Name()+"/other", 1)
					r := begin(t, redis, job, flag, "--ttl=6s", "--kill-after=2s", "--on-lost="+policy)
					r.up()
					r.lose(redis)
					if policy == "kill" {
						r.exits(79)
						r.foundGone()
					} else {
						r.until("it is told", func() bool {
							return strings.Contains(r.stderr.String(), "the command continues without the lock (--on-lost="+policy+")")
						})
						if policy == "notify" {
							r.until("USR1", func() bool { return r.file("usr1") })
						}
						r.end()
						r.exits(6)
					}
					if r.file("term") || r.file("usr1") != (policy == "notify") {
						t.Errorf("TERM: %v, USR1: %v", r.file("term"), r.file("usr1"))
					}
				})
			})
		}
	}
}
