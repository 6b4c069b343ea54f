package virtual

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// The published grant is true except for its claim, which is far longer than the waiter asked for. The server
// ends the lock after the claim that was asked for, so the lease must end by then, too.
func TestAPublishedClaimIsNoLongerThanTheOneAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var forged atomic.Int64
		promise := overhear(func(message string, tell func(string)) {
			if words := strings.Split(message, " "); words[1] == "grant" { // hf2 grant TOKEN NOW CLAIM FENCE KEY
				words[4] = "3600000"
				message = strings.Join(words, " ")
				forged.Add(1)
			}
			tell(message)
		})
		lock := func(c *holdfast.Client) *holdfast.Lock { return c.Mutex("a", holdfast.TTL(time.Minute)) }
		lease := acquire(t, lock(client(t, srv)))
		w := wait(t, lock(client(t, srv, promise)))
		release(t, lease)
		w.granted(t)
		if forged.Load() != 1 {
			t.Fatalf("%d grants were published", forged.Load())
		}
		own, left := time.Until(w.lease.Deadline()), server(t, srv).PTTL(t.Context(), "holdfast:{a}").Val()
		if own > left || left > 10*time.Second {
			t.Errorf("the lease lasts for another %s, its lock for %s", own, left)
		}
		release(t, w.lease)
	})
}
