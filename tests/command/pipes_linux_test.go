package command

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: Nobody reads the pipe to which holdfast run writes its report. A signal ends holdfast all the same, with the job's exit code.
func TestASignalEndsTheWaitForTheReadersOfAReport(t *testing.T) {
	redis := server.Alone(t)
	r := launch(t, t.Name(), redis, "sh", "-c", `until [ -e $DIR/ready ]; do sleep 0.02; done
exec holdfast run --json=$DIR/pipe "$0" -- sh -c 'touch $DIR/up; exit 3'`, t.Name())
	r.clog("pipe")
	r.write("ready")
	r.up()
	r.released(redis)
	r.signal(r.Cmd.Process.Pid, unix.SIGTERM)
	r.exits(3)
	r.says("the report was not written: interrupted")
}

// Fault: Nobody reads the pipe to which holdfast acquire writes its ticket. A signal ends holdfast, and the lock is released.
func TestASignalEndsTheWaitForTheReadersOfATicket(t *testing.T) {
	redis := server.Alone(t)
	r := launch(t, t.Name(), redis, "sh", "-c", `until [ -e $DIR/ready ]; do sleep 0.02; done
exec holdfast acquire --ttl 1h --ticket /dev/fd/3 "$0" 3>$DIR/pipe`, t.Name())
	r.clog("pipe")
	r.write("ready")
	r.until("the lock is held by a ticket", func() bool {
		n, _ := redis.Do("PTTL", r.key())
		left, _ := n.(int64)
		return left > 60_000 // more than the lease that is renewed until there is a ticket
	})
	r.signal(r.Cmd.Process.Pid, unix.SIGTERM)
	r.exits(143)
	r.says("the lock was released")
	expect.Of(redis.Do("EXISTS", r.key())).Is(t, "the lock's key exists", int64(0))
}
