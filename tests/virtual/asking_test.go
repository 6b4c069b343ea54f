//go:build !race

package virtual

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// A process asks for a lock again before it passes that on to its goroutines. The server then hands it the next hold by a message,
// and the renewal that follows at once reserves fences for many more passes. If the process asked only after the passes, these
// cycles would take some 150 acquires instead of 10. With the race detector the scheduler shuffles goroutines, and the numbers meet.
func TestALockThatIsPassedOnIsAskedForInTime(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // with more, the passes may begin before any request
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		const cycles, goroutines, most = 5000, 64, 50
		var acquires atomic.Int64
		l := client(t, srv, counted("acquire", &acquires), meddle(func(r request) (string, error) {
			time.Sleep(time.Millisecond)
			return r.send()
		})).Mutex("a")
		var begun atomic.Int64
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() {
				for begun.Add(1) <= cycles {
					lease, err := l.Acquire(t.Context())
					if err == nil {
						err = lease.Release(t.Context())
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		expect.Between(t, "acquires", acquires.Load(), 0, most)
	})
}
