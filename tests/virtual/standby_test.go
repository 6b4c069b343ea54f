package virtual

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// Fault: A waiter finds the lock free when it looks, acquires it without a hand-over, and dies. The next in the queue
// has been told when to look, and is served.
func TestFirstWaiterIsServedAfterAHolderThatFoundTheLockAndDied(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		acquire(t, client(t, srv, dying).Mutex("a", holdfast.TTL(5*time.Second), holdfast.NoRenew()))
		first := wait(t, client(t, srv, dying).Mutex("a", holdfast.TTL(time.Second), holdfast.NoRenew()))
		time.Sleep(2500 * time.Millisecond)
		second := wait(t, client(t, srv).Mutex("a"))
		first.granted(t)
		second.served(t, time.Second+50*time.Millisecond)
	})
}

// Fault: A message that says when to look is late, or forged. It does not make a waiter look later than it would
// without it.
func TestAStandbyDoesNotPutOffALook(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		observer := server(t, srv)
		acquire(t, client(t, srv, dying).Mutex("a", holdfast.TTL(10*time.Second), holdfast.NoRenew()))
		w := wait(t, client(t, srv).Mutex("a"))
		for range 3 {
			waiters := observer.ZRange(t.Context(), "holdfast:{a}:q", 0, -1).Val()
			if len(waiters) != 1 {
				t.Fatalf("%q are in the queue", waiters)
			}
			token, channel := tokenOf(waiters[0])
			now, err := observer.Time(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			message := fmt.Sprintf("hf2 standby %s %d %d", token, now.UnixMicro(), now.Add(25*time.Second).UnixMicro())
			if n := observer.Publish(t.Context(), channel, message).Val(); n != 1 {
				t.Fatalf("%d have heard it", n)
			}
			time.Sleep(time.Second)
		}
		w.served(t, 6*time.Second+50*time.Millisecond)
	})
}
