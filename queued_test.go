package holdfast

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// While a master hangs, each lease has at most one renewal in the queue: what it sends when it is first is as good as
// many.
func TestALeaseHasOneRenewalInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(clock.SetBoot(func() time.Duration { return 0 }))
		server := &cluster{fake: fake{holders: map[string]string{}}, answers: true}
		c, err := New(server, nil)
		if err != nil {
			t.Fatal(err)
		}
		const n, ttl = 4 * maxRenewing, 30 * time.Second
		leases := make([]*Lease, n)
		var all sync.WaitGroup
		for i := range leases {
			all.Go(func() {
				// With MaxHold each is renewed by itself.
				lease, err := c.Mutex(fmt.Sprint("a", i), TTL(ttl), MaxHold(time.Hour)).Acquire(t.Context())
				if err != nil {
					t.Error(err)
				}
				leases[i] = lease
			})
		}
		all.Wait()
		if t.Failed() {
			t.FailNow()
		}
		server.hangs.Store(true)
		singles, most := c.singly(leases[0].g.l), 0
		for range ttl / (100 * time.Millisecond) {
			time.Sleep(100 * time.Millisecond)
			singles.mu.Lock()
			most = max(most, len(singles.backlog))
			singles.mu.Unlock()
		}
		if most < n-maxRenewing || most > n {
			t.Errorf("%d renewals of %d leases were queued; want %d or more, and at most one each", most, n, n-maxRenewing)
		}
		server.hangs.Store(false)
		for _, l := range leases {
			all.Go(func() { _ = l.Release(t.Context()) })
		}
		all.Wait()
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
