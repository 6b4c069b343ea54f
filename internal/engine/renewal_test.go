package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/kind"
)

// refusing is a master that refuses batches of renewals while it hangs.
type refusing struct{ *cluster }

func (d refusing) Run(ctx context.Context, call driver.Call) (string, error) {
	if call.Script.Name == "batch_renew" && d.hangs.Load() {
		return "", driver.ReplyError("NOPERM no renewals of several")
	}
	return d.cluster.Run(ctx, call)
}

// While a master hangs, each lease has at most one renewal queued: once it is sent it does as much
// as many would.
func TestALeaseHasOneRenewalInTheQueue(t *testing.T) {
	server := func() *cluster { return &cluster{fake: fake{holders: map[string]string{}}} }
	t.Run("renewed by itself", func(t *testing.T) { testOneRenewalInTheQueue(t, server(), kind.MaxHold(time.Hour)) })
	t.Run("refused together", func(t *testing.T) { testOneRenewalInTheQueue(t, refusing{server()}, kind.Renew(true)) })
}

func testOneRenewalInTheQueue(t *testing.T, d driver.Driver, option kind.Option) {
	server, ok := d.(*cluster)
	if !ok {
		server = d.(refusing).cluster
	}
	bubble(t, func(t *testing.T) {
		c := open(t, d, nil)
		const n, ttl = 4 * maxRenewing, 30 * time.Second
		leases := takeAll(t, n, func(i int) Lock { return c.Mutex(fmt.Sprint("a", i), kind.TTL(ttl), option) })
		server.hangs.Store(true)
		singles, most := &c.serverOf(leases[0].(*holdLease).g.l).renewers, 0
		for range ttl / (100 * time.Millisecond) {
			time.Sleep(100 * time.Millisecond)
			most = max(most, singles.Waiting())
		}
		if most < n-maxRenewing || most > n {
			t.Errorf("%d renewals of %d leases were queued; want at least %d, and at most one for each lease", most, n, n-maxRenewing)
		}
		server.hangs.Store(false)
		releaseAll(leases)
		wantErr(t, "Close", c.Close(t.Context()), nil)
	})
}
