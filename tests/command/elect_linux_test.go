package command

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// stand campaigns in the test's election.
func stand(t testing.TB, redis *server.Server, script string, flags ...string) *trial {
	t.Helper()
	return beginAs(t, "elect", t.Name(), redis, script, flags...)
}

// leads waits until it leads, while nothing of the job of the leader before runs.
func (r *trial) leads(before *trial) {
	r.t.Helper()
	r.up()
	expect.Same(r.t, "processes of the leader before", before.job(), nil)
}

// Fault: holdfast elect is killed while it leads. The next leads within the TTL, when nothing of the leader's job is
// left.
func TestLeaderKilled(t *testing.T) {
	redis := server.Alone(t)
	first := stand(t, redis, "echo $HOLDFAST_FENCE >$DIR/fence\n"+stubborn, "--ttl=6s", "--kill-after=1s")
	first.up()
	second := stand(t, redis, patient, "--ttl=1h")
	second.waits(redis, "q", 1)
	first.signal(first.Cmd.Process.Pid, unix.SIGKILL)
	second.leads(first)
	first.exits(-1)
	second.end()
	second.exits(0)
	first.before(second)
}

// Fault: A leader is told to end. It resigns when its command has ended; a candidate that waits leaves.
func TestLeaderInterrupted(t *testing.T) {
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		redis := server.Start(t, server.One(t))
		// It has children that ignore signals, and waits for them while it holds the lock.
		const job = `setsid sleep 1000 & trap 'exit 5' TERM; touch $DIR/up; while :; do sleep 0.05; done`
		first := stand(t, redis, job, "--ttl=1h", "--again")
		first.up()
		second := stand(t, redis, patient, "--ttl=1h")
		second.waits(redis, "q", 1)
		third := stand(t, redis, patient, "--ttl=1h")
		third.waits(redis, "q", 2)
		third.signal(third.Cmd.Process.Pid, unix.SIGTERM)
		third.exits(143)
		third.says("terminated while campaigning for")
		second.waits(redis, "q", 1)
		first.signal(first.Cmd.Process.Pid, unix.SIGTERM)
		second.leads(first)
		first.exits(5) // and does not campaign again
		second.end()
		second.exits(0)
	})
}
