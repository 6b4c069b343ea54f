// Package adapters runs the drivers' conformance suite with every adapter, and tests that need real servers
// behind proxies, Clusters and sentinels.
package adapters

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
	"github.com/holdfast-go/holdfast/holdfastvalkey"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// dialer makes a connection to the only server.
type dialer func(ctx context.Context) (net.Conn, error)

// wires makes a connection to one of several servers, by its address.
type wires func(ctx context.Context, addr string) (net.Conn, error)

// options are what the options of all client libraries have.
type options struct {
	addrs     []string
	protocol  int
	password  string
	tls       *tls.Config
	dial      wires // nil: as usual
	isCluster bool
	shuffle   bool   // only rueidis and valkey-go have it
	master    string // the addresses are those of sentinels
}

// dialing returns the dialer of rueidis and valkey-go.
func (o options) dialing() func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	if o.dial == nil {
		return nil
	}
	return func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return o.dial(ctx, addr)
	}
}

// adapter makes drivers with clients as a program would make them.
type adapter func(t *testing.T, o options) drivertest.Driver

func (a adapter) single(t *testing.T, protocol int, dial dialer) drivertest.Driver {
	return a(t, options{addrs: []string{"the server"}, protocol: protocol, dial: func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }})
}

func (a adapter) cluster(t *testing.T, addrs []string, dial wires) drivertest.Driver {
	return a(t, options{addrs: addrs, dial: dial, isCluster: true})
}

// patience is how long a client waits for a running server, on a machine that may stand still for seconds.
const patience = 10 * time.Second

var adapters = map[string]adapter{
	"go-redis": func(t *testing.T, o options) drivertest.Driver {
		var dial func(ctx context.Context, _, addr string) (net.Conn, error)
		if o.dial != nil {
			dial = func(ctx context.Context, _, addr string) (net.Conn, error) { return o.dial(ctx, addr) }
		}
		failover := &redis.FailoverOptions{MasterName: o.master, SentinelAddrs: o.addrs}
		switch {
		case o.master != "":
			return drivertest.Of(holdfastgoredis.NewFailoverDriver(failover))
		case o.isCluster:
			return goRedis(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: o.addrs, MaxRetries: 5, Dialer: dial}))
		}
		return goRedis(t, redis.NewClient(&redis.Options{
			Addr: o.addrs[0], Protocol: o.protocol, Password: o.password, TLSConfig: o.tls, Dialer: dial,
			MaxRetries: 5, ReadTimeout: patience, WriteTimeout: patience,
		}))
	},
	"rueidis": func(_ *testing.T, o options) drivertest.Driver {
		own := rueidis.ClientOption{
			InitAddress: o.addrs, ShuffleInit: o.shuffle, AlwaysRESP2: o.protocol == 2, Password: o.password,
			TLSConfig: o.tls, DialCtxFn: o.dialing(),
			Sentinel: rueidis.SentinelOption{MasterSet: o.master},
		}
		if o.protocol != 0 {
			own.ConnWriteTimeout = patience
		}
		return drivertest.Of(holdfastrueidis.NewDriver(own))
	},
	"valkey": func(_ *testing.T, o options) drivertest.Driver {
		own := valkey.ClientOption{
			InitAddress: o.addrs, ShuffleInit: o.shuffle, AlwaysRESP2: o.protocol == 2, Password: o.password,
			TLSConfig: o.tls, DialCtxFn: o.dialing(),
		}
		if o.protocol != 0 {
			own.ConnWriteTimeout = patience
		}
		return drivertest.Of(holdfastvalkey.NewDriver(own))
	},
}

func goRedis(t *testing.T, rdb redis.UniversalClient) drivertest.Driver {
	t.Cleanup(func() { _ = rdb.Close() })
	return drivertest.Of(holdfastgoredis.NewDriver(rdb))
}

// each runs a test with every adapter.
func each(t *testing.T, f func(t *testing.T, a adapter)) {
	t.Parallel()
	for name, a := range adapters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, a)
		})
	}
}

func to(addr string) dialer {
	return func(ctx context.Context) (net.Conn, error) { return direct(ctx, addr) }
}

// direct dials the server of that address.
func direct(ctx context.Context, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// client returns a client over a driver, closed with the test. Its timeouts are longer than a stall of the
// machine; a command that hangs is repeated.
func client(t *testing.T, d drivertest.Driver) *holdfast.Client {
	t.Helper()
	c := expect.Of(holdfast.New(d, &holdfast.Config{CommandTimeout: 4 * time.Second, RetryTimeout: 30 * time.Second})).OK(t)
	backend.CloseWith(t, c)
	return c
}

// peer is a client that does not use the driver.
type peer struct {
	t   *testing.T
	rdb redis.UniversalClient
}

func (p peer) Do(args ...string) (string, error) {
	words := make([]any, len(args))
	for i, a := range args {
		words[i] = a
	}
	reply, err := p.rdb.Do(p.t.Context(), words...).Result()
	return fmt.Sprint(reply), err
}

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, a adapter) {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
				conforms := func(t *testing.T, b *backend.Backend) {
					drivertest.Run(t, func(t *testing.T) driver.Driver { return a.single(t, protocol, b.Dial) }, peer{t, b.Redis(t)})
				}
				// The suite has subtests, which a bubble does not allow.
				t.Run("embedded", func(t *testing.T) { conforms(t, backend.Embedded(t)) })
				backend.EachReal(t, conforms)
			})
		}
	})
}

// Options that lead to no server, or only to replicas, are refused, and what an adapter cannot do.
func TestOptionsThatAreRefused(t *testing.T) {
	addr := []string{"127.0.0.1:1"}
	refused := func(adapter, says string, err error) {
		t.Helper()
		expect.ErrSays(t, adapter, err, holdfast.ErrInvalid, says)
	}
	for says, o := range map[string]rueidis.ClientOption{
		"InitAddress":    {},
		"ReplicaOnly":    {InitAddress: addr, ReplicaOnly: true},
		"EnableRedirect": {InitAddress: addr, Standalone: rueidis.StandaloneOption{EnableRedirect: true}},
	} {
		_, err := holdfastrueidis.New(o, nil)
		refused("rueidis", says, err)
	}
	for says, o := range map[string]valkey.ClientOption{
		"InitAddress":    {},
		"ReplicaOnly":    {InitAddress: addr, ReplicaOnly: true},
		"Sentinel":       {InitAddress: addr, Sentinel: valkey.SentinelOption{MasterSet: "m"}},
		"EnableRedirect": {InitAddress: addr, Standalone: valkey.StandaloneOption{EnableRedirect: true}},
	} {
		_, err := holdfastvalkey.New(o, nil)
		refused("valkey", says, err)
	}
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: addr})
	defer rdb.Close()
	_, err := holdfastgoredis.New(rdb, nil)
	refused("go-redis", "NewFailover", err)
}

// The program's list of addresses stays as it is, even if its client is to shuffle them, which it does in place.
func TestAddressesStayInTheirOrder(t *testing.T) {
	t.Parallel()
	fail := func(context.Context, string) (net.Conn, error) { return nil, io.ErrClosedPipe }
	for _, name := range []string{"rueidis", "valkey"} {
		t.Run(name, func(t *testing.T) {
			var addrs []string
			for port := range 12 {
				addrs = append(addrs, fmt.Sprint("nobody:", port+1))
			}
			given, joined := slices.Clone(addrs), strings.Join(addrs, ",")
			d := adapters[name](t, options{addrs: given, shuffle: true, dial: fail})
			defer d.Close()
			for range 3 {
				expect.Err(t, "Run", expect.ErrOf(d.Run(t.Context(), driver.Call{Script: driver.NewScript("test", "return ''"), Keys: []string{"a"}})), driver.ErrNotSent)
				expect.Same(t, "the program's addresses", given, addrs)
				expect.Equal(t, "the server is called", d.Addr(), joined)
			}
			given[0] = "changed"
			expect.Equal(t, "the server is called", d.Addr(), joined)
		})
	}
}

// A script whose reply is lost is not repeated by the client library: it could take effect twice.
func TestScriptIsSentOnce(t *testing.T) {
	each(t, func(t *testing.T, a adapter) {
		s := server.Start(t, server.One(t))
		p := proxy.New(t, s.Addr())
		d := a.single(t, 3, to(p.Addr()))
		t.Cleanup(func() { _ = d.Close() })
		count := driver.NewScript("test", "return tostring(redis.call('INCR', KEYS[1]))")
		for _, urgent := range []bool{false, true} {
			key := fmt.Sprint("count-", urgent)
			expect.OK(t, expect.ErrOf(d.Run(t.Context(), driver.Call{Script: count, Keys: []string{key}, Urgent: urgent})))
			trap := p.LoseReply(proxy.Containing("evalsha", key), proxy.Cut)
			_, err := d.Run(t.Context(), driver.Call{Script: count, Keys: []string{key}, Urgent: urgent})
			if err == nil || errors.Is(err, driver.ErrNotSent) {
				t.Errorf("urgent %v: the reply was lost, and Run says %v", urgent, err)
			}
			trap.Wait(t)
			expect.Of(s.Do("GET", key)).Is(t, fmt.Sprintf("urgent %v: runs of the script", urgent), "2")
		}
	})
}

// A connection whose peer has vanished silently is given up.
func TestHangingConnectionIsGivenUp(t *testing.T) {
	each(t, func(t *testing.T, a adapter) {
		s := server.Start(t, server.One(t))
		p := proxy.New(t, s.Addr())
		c := client(t, a.single(t, 3, to(p.Addr())))
		lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(time.Minute)))
		trap := p.LoseReply(proxy.Containing("120000"), proxy.Hang) // the TTL that Extend asks for
		expect.Err(t, "Extend", lease.Extend(t.Context(), 2*time.Minute), nil)
		trap.Wait(t)
		backend.Release(t, lease)
	})
}

func addrsOf(nodes []*server.Server) (addrs []string) {
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// Fault: A connection leads to a server that has become a replica, by a proxy or a name that has moved, or a sentinel
// that is late. What it says about locks is not believed, and the connection is given up.
func TestMasterThatWasDemotedIsLeft(t *testing.T) {
	soak.Nightly(t)
	each(t, func(t *testing.T, a adapter) {
		for _, bin := range server.Binaries(t) {
			t.Run(bin.Name, func(t *testing.T) {
				old, heir := server.Start(t, bin), server.Start(t, bin)
				follow := func(s *server.Server, host, port string) {
					t.Helper()
					expect.OK(t, expect.ErrOf(s.Do("REPLICAOF", host, port)))
				}
				host, port, _ := net.SplitHostPort(old.Addr())
				follow(heir, host, port)
				var master atomic.Pointer[server.Server]
				master.Store(old)
				c := client(t, a.single(t, 3, func(ctx context.Context) (net.Conn, error) { return to(master.Load().Addr())(ctx) }))
				held := backend.Acquire(t, c.Mutex("held"))
				backend.Release(t, backend.Acquire(t, c.Mutex("other"))) // all of the client's connections exist
				old.AwaitInStep()
				follow(heir, "NO", "ONE")
				follow(old, "127.0.0.1", "1") // nobody listens there: it knows only old data
				master.Store(heir)

				backend.Release(t, backend.Acquire(t, c.Mutex("a")))
				expect.Err(t, "Extend", held.Extend(t.Context(), time.Minute), nil)
				backend.Release(t, held)
			})
		}
	})
}

func TestMain(m *testing.M) {
	backend.AtOnce(20) // the tests mostly wait
	os.Exit(m.Run())
}
