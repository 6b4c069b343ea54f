package topology

import (
	"context"
	"net"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// tunnelled is a connection through a tunnel, or a proxy: wherever it leads, it has the same remote address.
type tunnelled struct{ net.Conn }

func (tunnelled) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1080} }

func tunnel(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return tunnelled{conn}, nil
}

// Fault: All connections of a dialer have one remote address. Clients still leave a master that was replaced and
// stays alive, and waiters follow a slot to its next master.
func TestMastersThatShareARemoteAddress(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		t.Run("Sentinel", func(t *testing.T) {
			t.Parallel()
			g := server.StartSentinels(t, bin, 2, 3)
			open := sentinelsAt(g, g.Addrs(), tunnel)
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
			q := newQueue(t, clusterAt(c, 0, tunnel), "a")
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
