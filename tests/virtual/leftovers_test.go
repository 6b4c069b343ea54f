package virtual

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// If many leases are lost together, all of them are taken back, a few at a time.
func TestLostLeasesAreTakenBackFewAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var flying, most, all atomic.Int64
		c := client(t, srv, meddle(func(r request) (string, error) {
			switch {
			case r.does("renew"):
				return r.hang()
			case r.Script.Name == "release":
				all.Add(1)
				now := flying.Add(1)
				defer flying.Add(-1)
				for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
				}
				time.Sleep(100 * time.Millisecond)
			}
			return r.send()
		}))
		const n = 200
		var leases []*holdfast.Lease
		for i := range n {
			leases = append(leases, acquire(t, c.Mutex(fmt.Sprint(i), holdfast.TTL(10*time.Second))))
		}
		time.Sleep(20 * time.Second)
		for _, lease := range leases {
			if lease.Err() == nil {
				t.Errorf("%s is not lost", lease.Name())
			}
		}
		if most.Load() > 16 || all.Load() != n {
			t.Errorf("%d releases, %d at once; want %d, and at most 16", all.Load(), most.Load(), n)
		}
	})
}
