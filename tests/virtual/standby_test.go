package virtual

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// mute is the driver of a process that dies with what it holds: it releases nothing.
type mute struct{ holdfast.Driver }

func (d mute) Eval(ctx context.Context, s holdfast.Script, keys, args []string, urgent bool) (string, error) {
	switch s.Name {
	case "release", "share_release":
		return "released 1", nil
	case "batch_release":
		return "freed", nil
	}
	return d.Driver.Eval(ctx, s, keys, args, urgent)
}

func dying(d holdfast.Driver) holdfast.Driver { return mute{d} }

// A waiter that finds the lock free when it looks takes it without being handed it. The
// next in the queue is the first then, and must be told when to look, as it is when
// the lock is handed over: until then it looks as rarely as suits its old rank.
func TestFirstWaiterIsServedAfterAHolderThatFoundTheLockAndDied(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		acquire(t, client(t, srv, dying).Mutex("a", holdfast.TTL(5*time.Second), holdfast.Renew(false)))
		first := wait(t, client(t, srv, dying).Mutex("a", holdfast.TTL(time.Second), holdfast.Renew(false)))
		time.Sleep(2500 * time.Millisecond)
		second := wait(t, client(t, srv).Mutex("a"))
		<-first.done
		if first.err != nil {
			t.Fatal(first.err)
		}
		second.served(t, time.Second+50*time.Millisecond)
	})
}
