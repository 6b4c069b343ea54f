package virtual

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/holdfasttest"
)

// However many goroutines use locks on a distant server, none of them waits for the round trips of others.
func TestACycleTakesTwoRoundTripsHoweverManyAreUnderWay(t *testing.T) {
	const trip, goroutines, cycles = 2500 * time.Microsecond, 60, 5
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c := client(t, srv, meddle(func(r request) (string, error) { return r.late(trip) }))
		release(t, acquire(t, c.Mutex("warm")))
		ctx, cancel := context.WithCancel(t.Context()) // as programs' contexts may be
		defer cancel()
		var all sync.WaitGroup
		for n := range goroutines {
			time.Sleep(trip / goroutines)
			all.Go(func() {
				l := c.Mutex(fmt.Sprint("lock ", n))
				for range cycles {
					began := time.Now()
					lease, err := l.Acquire(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					if err := lease.Release(ctx); err != nil {
						t.Error(err)
					}
					if took := time.Since(began); took != 2*trip {
						t.Errorf("a cycle took %v; want two round trips of %v", took, trip)
					}
				}
			})
		}
		all.Wait()
	})
}
