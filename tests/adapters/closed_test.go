package adapters

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

var echo = driver.NewScript("test", "return ARGV[1]")

// errorsOf returns the error of each way to send a call.
func errorsOf(d drivertest.Driver, c driver.Call) map[string]error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.Script, c.Keys, c.Args = echo, []string{"a"}, []string{"x"}
	met := map[string]error{}
	_, met["Run"] = d.Run(ctx, c)
	_, _, met["RunDurably"] = d.RunDurably(ctx, c, driver.Durability{Timeout: time.Millisecond})
	return met
}

// Fault: The program closes its go-redis client and goes on using the driver. Acquires and renewals fail, although the driver
// has connections of its own. Releases are sent.
func TestGoRedisIsClosedBeforeTheDriver(t *testing.T) {
	s := server.Alone(t)
	for what, open := range map[string]func(t *testing.T) redis.UniversalClient{
		"a single server": func(t *testing.T) redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: s.Addr()}) },
		"a Cluster": func(t *testing.T) redis.UniversalClient {
			soak.Nightly(t)
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrsOf(server.StartCluster(t, server.One(t), 3))})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for _, used := range []bool{false, true} {
				rdb := open(t)
				d := goRedis(t, rdb)
				t.Cleanup(func() { _ = d.Close() })
				if used {
					for _, c := range []driver.Call{{Urgent: true, Renews: true}, {}, {Urgent: true}} {
						for way, err := range errorsOf(d, c) {
							if err != nil {
								t.Fatalf("%s, %+v: %v", way, c, err)
							}
						}
					}
				}
				expect.OK(t, rdb.Close())
				for _, c := range []driver.Call{{}, {Urgent: true, Renews: true}} {
					for way, err := range errorsOf(d, c) {
						expect.ErrBoth(t, fmt.Sprintf("used: %t, renews: %t, %s", used, c.Renews, way), err, driver.ErrClientClosed, driver.ErrNotSent)
					}
				}
				if _, err := d.Probe(t.Context()); !errors.Is(err, driver.ErrClientClosed) {
					t.Errorf("used: %t, Probe: %v", used, err)
				}
				for way, err := range errorsOf(d, driver.Call{Urgent: true}) {
					if err != nil {
						t.Errorf("used: %t, a release, %s: %v", used, way, err)
					}
				}
			}
		})
	}
}

// The library's own connections are of no use soon after the program has closed its client.
func TestGoRedisIsClosedBeforeItsConnections(t *testing.T) {
	s := server.Alone(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	d := goRedis(t, rdb)
	t.Cleanup(func() { _ = d.Close() })
	connector := d.(driver.Connector)
	expect.OK(t, connector.Ready())
	expect.OK(t, rdb.Close())
	backend.Eventually(t, "it is not ready", func() bool { return errors.Is(connector.Ready(), driver.ErrClientClosed) })
}

// counting counts what a program's hooks and limiter see.
type counting struct{ seen atomic.Int64 }

func (c *counting) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c.seen.Add(1)
		return next(ctx, network, addr)
	}
}

func (c *counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.seen.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *counting) Allow() error {
	c.seen.Add(1)
	return nil
}

func (c *counting) ReportResult(error) { c.seen.Add(1) }

// A client without connections is not mistaken for a closed one, and hooks and limiters do not see the check.
func TestRenewalsOverAGoRedisClientWithoutConnections(t *testing.T) {
	s := server.Alone(t)
	var count counting
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Limiter: &count})
	rdb.AddHook(&count)
	t.Cleanup(func() { _ = rdb.Close() })
	d := drivertest.Of(holdfastgoredis.NewDriver(rdb))
	t.Cleanup(func() { _ = d.Close() })
	for way, err := range errorsOf(d, driver.Call{Urgent: true, Renews: true}) {
		expect.Err(t, way, err, nil)
	}
	if n, stats := count.seen.Load(), rdb.PoolStats(); n != 0 || stats.TotalConns != 0 {
		t.Errorf("hooks and limiter were called %d times; the client has %d connections", n, stats.TotalConns)
	}
}

// With ViaClient, hooks and the pool's figures see acquires, whichever deadlines the program's client keeps to.
func TestHooksSeeAcquires(t *testing.T) {
	s := server.Alone(t)
	for name, o := range map[string]redis.Options{"as usual": {}, "with the deadlines of contexts": {ReadTimeout: -1, ContextTimeoutEnabled: true}} {
		o.Addr = s.Addr()
		rdb := redis.NewClient(&o)
		t.Cleanup(func() { _ = rdb.Close() })
		c := expect.Of(holdfastgoredis.New(rdb, &holdfast.Config{ViaClient: true})).OK(t)
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		var count counting
		rdb.AddHook(&count)
		for range 3 {
			backend.Release(t, backend.Acquire(t, c.Mutex("a")))
		}
		// A connection, three scripts, and the first of them once more, by its source.
		if n, stats := count.seen.Load(), rdb.PoolStats(); n < 4 || stats.TotalConns != 1 {
			t.Errorf("%s: hooks were called %d times; the client has %d connections", name, n, stats.TotalConns)
		}
	}
}
