package command

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// lead is a job that records its terms, and ends when it is told to.
const lead = `
echo $HOLDFAST_FENCE >>$DIR/terms; touch $DIR/up
until [ -e $DIR/go ]; do sleep 0.05; done; exit 3`

// stand campaigns in the test's election.
func stand(t testing.TB, redis interface{ Addr() string }, script string, flags ...string) *trial {
	t.Helper()
	return beginAs(t, "elect", t.Name(), redis, script, flags...)
}

// queues waits until n candidates wait to lead.
func (r *trial) queues(redis *server.Server, n int64) {
	r.t.Helper()
	r.waits(redis, "q", n)
}

// leads waits for its nth term, during which none of others leads.
func (r *trial) leads(term int, others ...*trial) {
	r.t.Helper()
	r.until(fmt.Sprint("it leads for term ", term), func() bool { return len(r.terms()) >= term })
	for _, o := range others {
		if left := o.job(); len(left) > 0 {
			r.t.Errorf("another leads, but processes %v of the leader before run on", left)
		}
	}
}

// terms returns the fences of its terms.
func (r *trial) terms() []string {
	text, _ := os.ReadFile(filepath.Join(r.dir, "terms"))
	return strings.Fields(string(text))
}

// rise requires that fences rise.
func rise(t testing.TB, fences ...string) {
	t.Helper()
	if !slices.IsSortedFunc(fences, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	}) || len(slices.Compact(slices.Clone(fences))) != len(fences) {
		t.Errorf("the fences of terms: %q", fences)
	}
}

// These flags make terms short.
var shortTerms = []string{"--ttl=6s", "--kill-after=1s"}

// Fault: holdfast elect is killed while it leads. The next leads within the TTL, when nothing of the leader's job is
// left.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	redis := server.Start(t, server.One(t))
	first := stand(t, redis, `echo $HOLDFAST_FENCE >$DIR/terms
`+stubborn, shortTerms...)
	first.up()
	second := stand(t, redis, lead, "--ttl=1h")
	second.queues(redis, 1)
	first.signal(first.cmd.Process.Pid, unix.SIGKILL)
	second.leads(1, first)
	first.exits(-1)
	second.end()
	second.exits(3)
	rise(t, first.terms()[0], second.terms()[0])
}

// Fault: holdfast elect is stopped while it leads. The next one leads; when the first goes on, it queues again.
func TestLeaderStopped(t *testing.T) {
	long(t)
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		redis := server.Start(t, server.One(t))
		first := stand(t, redis, lead, shortTerms...)
		first.leads(1)
		second := stand(t, redis, lead, "--ttl=1h")
		second.queues(redis, 1)
		first.signal(first.cmd.Process.Pid, unix.SIGSTOP)
		second.leads(1, first)
		first.signal(first.cmd.Process.Pid, unix.SIGCONT)
		second.queues(redis, 1)
		second.end()
		second.exits(3)
		first.leads(2, second)
		first.signal(first.cmd.Process.Pid, unix.SIGTERM)
		first.exits(143)
		first.says("the command was ended; campaigning again")
		rise(t, first.terms()[0], second.terms()[0], first.terms()[1])
	})
}

// Fault: A leader is told to end. It resigns when its command has ended; a candidate that waits leaves.
func TestLeaderInterrupted(t *testing.T) {
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		redis := server.Start(t, server.One(t))
		// It has children that ignore signals, and waits for them while it holds the lock.
		first := stand(t, redis, `setsid sleep 1000 & trap 'exit 5' TERM; touch $DIR/up; while :; do sleep 0.05; done`, "--ttl=1h", "--again")
		first.up()
		second := stand(t, redis, lead, "--ttl=1h")
		second.queues(redis, 1)
		third := stand(t, redis, lead, "--ttl=1h")
		third.queues(redis, 2)
		third.signal(third.cmd.Process.Pid, unix.SIGTERM)
		third.exits(143)
		third.says("terminated while campaigning for")
		second.queues(redis, 1)
		first.signal(first.cmd.Process.Pid, unix.SIGTERM)
		second.leads(1, first)
		first.exits(5) // and does not campaign again
		second.end()
		second.exits(3)
	})
}

// A leader that campaigns again after its term queues behind the waiting candidates.
func TestLeaderBeginsAgain(t *testing.T) {
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		redis := server.Start(t, server.One(t))
		again := []string{"--ttl=1h", "--again", "--terms=2"}
		first := stand(t, redis, lead, again...)
		first.leads(1)
		second := stand(t, redis, lead, again...)
		second.queues(redis, 1)
		first.end() // so each of its terms ends at once
		second.leads(1, first)
		second.queues(redis, 1)
		second.end()
		first.exits(3)
		second.exits(3)
		rise(t, first.terms()[0], second.terms()[0], first.terms()[1], second.terms()[1])
	})
}

// TestLeadersAreSeen watches leaders come and go, one of them by kill -9.
func TestLeadersAreSeen(t *testing.T) {
	long(t)
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		redis := server.Start(t, server.One(t))
		watch := exec.Command("holdfast", "elect", t.Name(), "--watch", "--json", "--redis="+redis.Addr())
		out, err := watch.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(watch); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		limit := time.AfterFunc(2*hang, func() { _ = watch.Process.Kill() })
		defer limit.Stop()
		sees := func(pid int) {
			t.Helper()
			var seen struct {
				Name   string
				Leader *struct {
					PID   int
					Fence uint64
				}
			}
			if !lines.Scan() {
				t.Fatalf("it sees nothing: %v", lines.Err())
			}
			if err := json.Unmarshal(lines.Bytes(), &seen); err != nil || seen.Name != t.Name() {
				t.Fatalf("it says %s: %v", lines.Bytes(), err)
			}
			if got := seen.Leader; pid == 0 && got != nil || pid != 0 && (got == nil || got.PID != pid || got.Fence == 0) {
				t.Fatalf("it sees %s, want pid %d", lines.Bytes(), pid)
			}
		}
		sees(0)
		first := stand(t, redis, lead, shortTerms...)
		sees(first.cmd.Process.Pid)
		second := stand(t, redis, lead, "--ttl=1h")
		second.queues(redis, 1)
		first.end()
		sees(second.cmd.Process.Pid)
		second.end()
		sees(0)
		third := stand(t, redis, stubborn, shortTerms...)
		sees(third.cmd.Process.Pid)
		third.signal(third.cmd.Process.Pid, unix.SIGKILL)
		sees(0)
		if err := watch.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = watch.Wait()
		if code := watch.ProcessState.ExitCode(); code != 143 {
			t.Errorf("exit code %d", code)
		}
	})
}
