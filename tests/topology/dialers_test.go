package topology

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
	"github.com/holdfast-go/holdfast/holdfastvalkey"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// tunnelled is a connection through a tunnel, or a proxy: wherever it leads, it has the same remote address.
type tunnelled struct{ net.Conn }

func (tunnelled) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1080} }

func tunnel(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return tunnelled{conn}, nil
}

func tunnelOf(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	return tunnel(ctx, "tcp", addr)
}

// Fault: All connections of a dialer have one remote address. Clients still leave a master that was replaced and
// stays alive, and waiters follow a slot to its next master.
func TestMastersThatShareARemoteAddress(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		t.Run("Sentinel", func(t *testing.T) {
			t.Parallel()
			backend.NeedsSentinel(t)
			g := server.StartSentinels(t, bin, 2, 3)
			open := opener(func(t *testing.T) drivertest.Driver {
				if backend.Adapter(t) == "rueidis" {
					return drivertest.Of(holdfastrueidis.NewDriver(rueidis.ClientOption{InitAddress: g.Addrs(), DialCtxFn: tunnelOf, Sentinel: rueidis.SentinelOption{MasterSet: g.Name}}))
				}
				return drivertest.Of(holdfastgoredis.NewFailoverDriver(&redis.FailoverOptions{MasterName: g.Name, SentinelAddrs: g.Addrs(), Dialer: tunnel}))
			})
			old := g.Servers[0]
			if _, err := old.Do("ACL", "SETUSER", "default", "-replicaof", "-slaveof"); err != nil { // it stays a master
				t.Fatal(err)
			}
			first := open.client(t, nil)
			backend.Release(t, backend.Acquire(t, first.Mutex("a")))
			q := newQueue(t, open, "b")
			old.AwaitInStep()
			g.Failover()
			g.NextMaster(old)
			awaitLeft(t, old)
			backend.Release(t, backend.Acquire(t, first.Mutex("a")))
			q.passes("the failover")
		})
		t.Run("Cluster", func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, bin)
			q := newQueue(t, func(t *testing.T) drivertest.Driver {
				switch backend.Adapter(t) {
				case "rueidis":
					return drivertest.Of(holdfastrueidis.NewDriver(rueidis.ClientOption{InitAddress: c.Addrs(), DialCtxFn: tunnelOf}))
				case "valkey":
					return drivertest.Of(holdfastvalkey.NewDriver(valkey.ClientOption{InitAddress: c.Addrs(), DialCtxFn: tunnelOf}))
				}
				return goRedis(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), ClusterStateReloadInterval: time.Hour, Dialer: tunnel}))
			}, "a")
			slot := slotOf("a")
			m := c.StartMove(slot, otherMaster(c, slot))
			for len(m.Keys(10)) > 0 {
			}
			m.Finish()
			backend.Waiters(t, q.l, 1)
			q.passes("the move of its slot")
		})
	})
}
