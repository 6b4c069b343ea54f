package virtual

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// Fault: The holder dies, and with it the first waiters. The next waiter gets the lock within TTL + 1 s, however many
// they are, and whenever they died.
func TestAHolderDiesWithTheFirstWaiters(t *testing.T) {
	for kind, lock := range kinds {
		for _, dead := range []int{0, 1, 6} {
			for _, ttl := range []time.Duration{time.Second, 4 * time.Second, 15 * time.Second} {
				t.Run(fmt.Sprintf("%s/%d/%s", kind, dead, ttl), func(t *testing.T) {
					if testing.Short() && kind != "mutex" && kind != "permit" {
						t.Skip("many processes")
					}
					for _, after := range []time.Duration{100 * time.Millisecond, 3 * time.Second, 11 * time.Second} {
						bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
							var doomed mortals
							acquire(t, lock(doomed.process(t, srv), holdfast.TTL(ttl)))
							for range dead {
								wait(t, lock(doomed.process(t, srv), holdfast.TTL(30*time.Second)))
							}
							last := wait(t, lock(client(t, srv), holdfast.TTL(30*time.Second)))
							time.Sleep(after)
							doomed.kill()
							last.served(t, ttl+time.Second)
						})
					}
				})
			}
		}
	}
}

// Fault: The first waiters for a key that another program holds die. The next notices at its next look, within 12 s.
func TestTheFirstWaitersDieWhileAnotherProgramHasTheKey(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		other := server(t, srv)
		other.Set(t.Context(), "k", "theirs", 0)
		var doomed mortals
		for range 6 {
			wait(t, doomed.process(t, srv).MutexKey("k"))
		}
		last := wait(t, client(t, srv).MutexKey("k"))
		doomed.kill()
		time.Sleep(15 * time.Second) // it has looked since
		other.Del(t.Context(), "k")
		last.served(t, 400*time.Millisecond)
	})
}
