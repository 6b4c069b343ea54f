// Package topology tests locks on servers as in production: a master with replicas and sentinels, and a Cluster
// whose masters have replicas. Masters are killed, paused and replaced, and slots move, while locks are held and waited for.
package topology

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
	"github.com/holdfast-go/holdfast/holdfastvalkey"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// opener makes a driver with a client of its own, like another program.
type opener func(t *testing.T) drivertest.Driver

// dialer makes a connection to a server.
type dialer func(ctx context.Context, addr string) (net.Conn, error)

func (dial dialer) goRedis(ctx context.Context, _, addr string) (net.Conn, error) {
	return dial(ctx, addr)
}

func (dial dialer) rueidis(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	return dial(ctx, addr)
}

func clusterOf(c *server.Cluster) opener { return clusterAt(c, 0, nil) }

// clusterAt opens clients of a database that dial as usual, or as dial does. They refresh the slots by themselves only after
// the test: until then the driver must do it.
func clusterAt(c *server.Cluster, db int, dial dialer) opener {
	return func(t *testing.T) drivertest.Driver {
		switch backend.Adapter(t) {
		case "rueidis":
			o := rueidis.ClientOption{InitAddress: c.Addrs(), SelectDB: db}
			if dial != nil {
				o.DialCtxFn = dial.rueidis
			}
			return drivertest.Of(holdfastrueidis.NewDriver(o))
		case "valkey":
			o := valkey.ClientOption{InitAddress: c.Addrs(), SelectDB: db}
			if dial != nil {
				o.DialCtxFn = dial.rueidis
			}
			return drivertest.Of(holdfastvalkey.NewDriver(o))
		}
		o := &redis.ClusterOptions{Addrs: c.Addrs(), ClusterStateReloadInterval: time.Hour}
		if db != 0 {
			o.OnConnect = func(ctx context.Context, conn *redis.Conn) error { return conn.Select(ctx, db).Err() }
		}
		if dial != nil {
			o.Dialer = dial.goRedis
		}
		return goRedis(t, redis.NewClusterClient(o))
	}
}

// startCluster starts a cluster of three masters with a replica each. A replica takes over only if a test calls
// fails, not because the machine stalls.
func startCluster(t *testing.T, bin server.Binary) *server.Cluster {
	t.Helper()
	c := server.StartReplicatedCluster(t, bin, 3)
	c.Patience(30 * time.Second)
	return c
}

// fails makes a slot's master fail, so that its replica notices, and waits until the replica has replaced it. Only
// meanwhile are nodes impatient: on a slow machine they would replace masters that are well.
func fails(c *server.Cluster, slot int, fail func(master *server.Server)) (master *server.Server) {
	master = c.Owner(slot)
	master.AwaitInStep()
	c.Patience(time.Second)
	fail(master)
	c.Owner(slot, master)
	c.Patience(30*time.Second, master)
	return master
}

func sentinelsOf(g *server.Sentinels) opener { return sentinelsAt(g, g.Addrs(), nil) }

// sentinelsAt opens clients that know sentinels at these addresses, and dial as usual, or as dial does.
func sentinelsAt(g *server.Sentinels, addrs []string, dial dialer) opener {
	return func(t *testing.T) drivertest.Driver {
		backend.NeedsSentinel(t)
		if backend.Adapter(t) == "rueidis" {
			o := rueidis.ClientOption{InitAddress: addrs, Sentinel: rueidis.SentinelOption{MasterSet: g.Name}}
			if dial != nil {
				o.DialCtxFn = dial.rueidis
			}
			return drivertest.Of(holdfastrueidis.NewDriver(o))
		}
		o := &redis.FailoverOptions{MasterName: g.Name, SentinelAddrs: addrs}
		if dial != nil {
			o.Dialer = dial.goRedis
		}
		return drivertest.Of(holdfastgoredis.NewFailoverDriver(o))
	}
}

// goRedis returns a driver over a client that is closed with the test.
func goRedis(t *testing.T, rdb redis.UniversalClient) drivertest.Driver {
	t.Cleanup(func() { _ = rdb.Close() })
	return drivertest.Of(holdfastgoredis.NewDriver(rdb))
}

func (open opener) client(t *testing.T, cfg *holdfast.Config) *holdfast.Client {
	t.Helper()
	c := expect.Of(holdfast.New(open(t), cfg)).OK(t)
	backend.CloseWith(t, c)
	return c
}

func slotOf(name string) int { return int(keys.Slot("holdfast:{" + name + "}")) }

// names returns names of n locks, which are spread over all masters of a Cluster.
func names(n int) []string {
	var all []string
	for i := range n {
		all = append(all, "job-"+strconv.Itoa(i))
	}
	return all
}

// otherMaster returns a master to which a slot can move.
func otherMaster(c *server.Cluster, slot int) *server.Server {
	owner := c.Owner(slot)
	return slices.DeleteFunc(c.Masters(), func(s *server.Server) bool { return s == owner })[0]
}

// rejected returns how many scripts the running nodes have refused without running them: those that are
// redirected, and those that must be sent again later.
func rejected(c *server.Cluster) (n int64) {
	for _, s := range c.Nodes {
		for command, rejected := range s.Rejections() {
			if command == "evalsha" || command == "eval" {
				n += rejected
			}
		}
	}
	return n
}

// kindOf returns the sentinel of an error from a server, or nil.
func kindOf(err error) error {
	for _, kind := range []error{
		holdfast.ErrReplicas, holdfast.ErrQuarantine, holdfast.ErrUnavailable, holdfast.ErrDenied, holdfast.ErrMismatch, holdfast.ErrUnsupported,
	} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// each runs f on the machine's servers: on all in a soak; otherwise on the first, and on the most capable Valkey.
func each(t *testing.T, f func(t *testing.T, bin server.Binary)) {
	t.Parallel()
	all := server.Binaries(t)
	chosen := all[:1]
	for _, bin := range all[1:] {
		if bin.Valkey {
			chosen = []server.Binary{all[0], bin}
		}
	}
	if soak.Long() {
		chosen = all
	} else if len(chosen) < len(all) {
		names := ""
		for _, bin := range chosen {
			names += " " + bin.Name
		}
		t.Logf("ONLY%s of the %d servers here; HOLDFAST_SOAK=1m runs it on all", names, len(all))
	}
	for _, bin := range chosen {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			f(t, bin)
		})
	}
}

func TestMain(m *testing.M) {
	backend.AtOnce(4 * runtime.GOMAXPROCS(0)) // the tests mostly wait for failovers
	os.Exit(m.Run())
}
