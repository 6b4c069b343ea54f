package virtual

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// inOrder waits until both have had the lock, first before second.
func inOrder(t *testing.T, first, second *waiting) {
	t.Helper()
	select {
	case <-first.done:
	case <-second.done:
		t.Error("the process behind was served first")
		first, second = second, first
	}
	first.served(t, 0)
	second.served(t, time.Second)
}

// If the first waiting goroutine of a process leaves, and the next one wants other options, the process asks
// again. It keeps its place, although the lock becomes free meanwhile.
func TestNobodyPassesAProcessThatAsksAnew(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		lease := acquire(t, client(t, srv).Mutex("a"))
		var slow atomic.Bool
		c := configured(t, srv, cfg, meddle(func(r request) (string, error) {
			if slow.Load() && r.does("acquire") {
				time.Sleep(500 * time.Millisecond)
			}
			return r.send()
		}))
		leaving := wait(t, c.Mutex("a", holdfast.TTL(20*time.Second)))
		staying := wait(t, c.Mutex("a", holdfast.TTL(10*time.Second)))
		behind := wait(t, client(t, srv).Mutex("a"))
		slow.Store(true)
		leaving.cancel()
		time.Sleep(100 * time.Millisecond) // it is asking
		release(t, lease)
		inOrder(t, staying, behind)
	})
}

// The same holds if the lock was granted to the goroutine that has left.
func TestNobodyPassesAProcessWhoseGrantFindsNobody(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		lease := acquire(t, client(t, srv).Mutex("a"))
		var late atomic.Bool
		c := configured(t, srv, cfg, belated("acquire", 200*time.Millisecond, &late))
		// Without renewals the lock must be confirmed after a hand-over.
		leaving := wait(t, c.Mutex("a", holdfast.TTL(20*time.Second), holdfast.NoRenew()))
		staying := wait(t, c.Mutex("a", holdfast.TTL(10*time.Second)))
		behind := wait(t, client(t, srv).Mutex("a"))
		late.Store(true)
		release(t, lease)
		time.Sleep(100 * time.Millisecond) // the answer is on its way
		leaving.cancel()
		inOrder(t, staying, behind)
	})
}
