package virtual

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// mute is the driver of a process that dies with what it holds: it releases nothing.
type mute struct{ drivertest.Driver }

func (d mute) Run(ctx context.Context, call driver.Call) (string, error) {
	switch call.Script.Name {
	case "release", "share_release":
		return "released 1", nil
	case "batch_release":
		return "freed", nil
	}
	return d.Driver.Run(ctx, call)
}

func dying(d drivertest.Driver) drivertest.Driver { return mute{d} }

// Fault: A waiter finds the lock free when it looks, acquires it without a hand-over, and dies. The next in the queue
// has been told when to look, and is served.
func TestFirstWaiterIsServedAfterAHolderThatFoundTheLockAndDied(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		acquire(t, client(t, srv, dying).Mutex("a", holdfast.TTL(5*time.Second), holdfast.NoRenew()))
		first := wait(t, client(t, srv, dying).Mutex("a", holdfast.TTL(time.Second), holdfast.NoRenew()))
		time.Sleep(2500 * time.Millisecond)
		second := wait(t, client(t, srv).Mutex("a"))
		<-first.done
		if first.err != nil {
			t.Fatal(first.err)
		}
		second.served(t, time.Second+50*time.Millisecond)
	})
}

// Fault: A message that says when to look is late, or forged. It does not make a waiter look later than it would
// without it.
func TestAStandbyDoesNotPutOffALook(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		observer := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: srv.Dial})
		t.Cleanup(func() { _ = observer.Close() })
		acquire(t, client(t, srv, dying).Mutex("a", holdfast.TTL(10*time.Second), holdfast.NoRenew()))
		w := wait(t, client(t, srv).Mutex("a"))
		for range 3 {
			waiters := observer.ZRange(t.Context(), "holdfast:{a}:q", 0, -1).Val()
			if len(waiters) != 1 {
				t.Fatalf("%q are in the queue", waiters)
			}
			member := strings.Split(waiters[0], "\n")
			now, err := observer.Time(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			message := fmt.Sprintf("hf2 standby %s %d %d", member[0], now.UnixMicro(), now.Add(25*time.Second).UnixMicro())
			if n := observer.Publish(t.Context(), member[2], message).Val(); n != 1 {
				t.Fatalf("%d have heard it", n)
			}
			time.Sleep(time.Second)
		}
		w.served(t, 6*time.Second+50*time.Millisecond)
	})
}
